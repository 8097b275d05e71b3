-- The actions that Argo CD offers for a Run: those that the API server accepts and the operator acts on.

local function is_true(kind)
  if obj.status == nil or obj.status.conditions == nil then
    return false
  end
  for _, found in ipairs(obj.status.conditions) do
    if found.type == kind then
      return found.status == "True"
    end
  end
  return false
end

-- Whether a value is the same behind Lua, which has one kind of empty table, and whole numbers up to 2^53. Values that
-- are nested very deeply are not looked at, since Lua's calls can't be either.
local function kept(value, depth)
  if type(value) == "number" then
    return value > -9007199254740992 and value < 9007199254740992
  end
  if type(value) ~= "table" then
    return true
  end
  if depth > 32 or next(value) == nil then
    return false
  end
  for _, inner in pairs(value) do
    if not kept(inner, depth + 1) then
      return false
    end
  end
  return true
end

local actions = {}
local annotations = obj.metadata.annotations or {}
local submitted = obj.status ~= nil and obj.status.runID ~= nil
local announced = annotations["run-operator.dev/intent"] ~= nil

-- A new object with another name, and so a new run. This one stays.
if obj.metadata.deletionTimestamp == nil and is_true("Finished") and kept(obj.spec, 1) then
  actions["rerun"] = { ["displayName"] = "Run it again", ["iconClass"] = "fa fa-fw fa-redo" }
end

if obj.metadata.deletionTimestamp ~= nil or is_true("Finished") or obj.spec.cancel == true then
  return actions
end

-- One-way: the run is cancelled and the object stays.
actions["cancel"] = { ["displayName"] = "Cancel the run", ["iconClass"] = "fa fa-fw fa-stop" }

-- One more submission of a Run that was refused. Safe: a submission that may have made a run is repeated
-- with the same key. Once there is a run, a retry has no effect.
if is_true("Stalled") and not submitted then
  actions["retry"] = { ["displayName"] = "Submit once more", ["iconClass"] = "fa fa-fw fa-redo" }
end

-- From the intent on the operator ignores spec.suspend.
if obj.spec.suspend == true and not submitted then
  actions["resume"] = { ["displayName"] = "Submit the run", ["iconClass"] = "fa fa-fw fa-play" }
elseif not announced and not submitted then
  actions["suspend"] = { ["displayName"] = "Hold the submission", ["iconClass"] = "fa fa-fw fa-pause" }
end

return actions
