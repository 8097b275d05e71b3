-- A Run beside the schedule's ticks, as the operator would make it of spec.template: it belongs to the schedule, and the
-- API server chooses its name.
local template = obj.spec.template
if template == nil then
  error("spec.templateRef: trigger it with kubectl runop schedule trigger")
end
local metadata = {
  generateName = obj.metadata.name .. "-",
  namespace = obj.metadata.namespace,
  ownerReferences = {
    {
      apiVersion = obj.apiVersion,
      kind = obj.kind,
      name = obj.metadata.name,
      uid = obj.metadata.uid,
      controller = true,
    },
  },
}

-- An empty table would be an empty list.
local function given(texts)
  if texts ~= nil and next(texts) ~= nil then
    return texts
  end
  return nil
end

if template.metadata ~= nil then
  metadata.labels = given(template.metadata.labels)
  metadata.annotations = given(template.metadata.annotations)
end
local run = { apiVersion = obj.apiVersion, kind = "Run", metadata = metadata, spec = template.spec }
return { { operation = "create", resource = run } }
