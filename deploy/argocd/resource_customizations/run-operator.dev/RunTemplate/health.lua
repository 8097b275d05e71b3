-- The health of a RunTemplate for Argo CD: data, which nothing reconciles.

if obj.metadata.deletionTimestamp ~= nil then
  return { status = "Progressing", message = "Being deleted" }
end
return { status = "Healthy", message = "" }
