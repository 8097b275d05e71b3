-- The actions that Argo CD offers for a RunSchedule.

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
if obj.metadata.deletionTimestamp ~= nil then
  return actions
end
if obj.spec.suspend == true then
  actions["resume"] = { ["displayName"] = "Create Runs again", ["iconClass"] = "fa fa-fw fa-play" }
else
  actions["suspend"] = { ["displayName"] = "Create no Runs", ["iconClass"] = "fa fa-fw fa-pause" }
end

-- An action sees this object only, and so no RunTemplate.
local trigger = { ["displayName"] = "Create a Run now", ["iconClass"] = "fa fa-fw fa-bolt" }
if obj.spec.template == nil then
  trigger["displayName"] = "Create a Run now (not with templateRef)"
  trigger["disabled"] = true
elseif not kept(obj.spec.template.spec, 1) then
  trigger["displayName"] = "Create a Run now (not with this workload)"
  trigger["disabled"] = true
end
actions["trigger"] = trigger
return actions
