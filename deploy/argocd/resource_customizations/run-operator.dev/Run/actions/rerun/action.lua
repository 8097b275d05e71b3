-- A new Run with the spec of one that has ended. Twice in a minute is refused: the name is taken. No label and no
-- annotation goes along, since a tool may track the old object by one.
local os = require("os")
local finished = false
for _, found in ipairs(obj.status ~= nil and obj.status.conditions or {}) do
  finished = finished or found.type == "Finished" and found.status == "True"
end
if not finished then
  error("this Run has not ended")
end
local spec = {}
for field, value in pairs(obj.spec) do
  if field ~= "suspend" and field ~= "cancel" and field ~= "idempotencyKey" then
    spec[field] = value
  end
end
local metadata = {
  name = obj.metadata.name .. "-r" .. os.date("!%Y%m%d%H%M"),
  namespace = obj.metadata.namespace,
}
local run = { apiVersion = obj.apiVersion, kind = obj.kind, metadata = metadata, spec = spec }
return { { operation = "create", resource = run } }
