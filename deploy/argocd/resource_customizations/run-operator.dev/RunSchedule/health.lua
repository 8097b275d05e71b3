-- The health of a RunSchedule for Argo CD, from the conditions Ready, Suspended and Stalled (docs/schedules.md). That of its
-- Runs is their own. It needs no standard library: Argo CD runs it with libraries off.

local function condition(kind)
  if obj.status == nil or obj.status.conditions == nil then
    return nil
  end
  for _, found in ipairs(obj.status.conditions) do
    if found.type == kind then
      return found
    end
  end
  return nil
end

local function is_true(found)
  return found ~= nil and found.status == "True"
end

local function health(status, message)
  return { status = status, message = message or "" }
end

-- A deletion in the foreground waits for its Runs.
if obj.metadata.deletionTimestamp ~= nil then
  return health("Progressing", "Being deleted")
end

-- Not observed yet, or the status refers to an earlier spec. A status without a generation is never taken for
-- healthy either.
if obj.status == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return health("Progressing", "Waiting for run-operator to see this version of the spec")
end

local stalled = condition("Stalled")
if is_true(stalled) then
  return health("Degraded", stalled.message)
end

-- It is still Ready: its times and its template are valid.
local suspended = condition("Suspended")
if is_true(suspended) then
  return health("Suspended", suspended.message)
end

local ready = condition("Ready")
if is_true(ready) then
  return health("Healthy", ready.message)
end
if ready ~= nil then
  return health("Progressing", ready.message)
end
return health("Progressing", "Waiting for run-operator")
