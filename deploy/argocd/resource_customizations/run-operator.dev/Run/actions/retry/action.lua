local os = require("os")
if obj.metadata.annotations == nil then
  obj.metadata.annotations = {}
end
obj.metadata.annotations["run-operator.dev/retry"] = os.date("!%Y-%m-%dT%XZ")
return obj
