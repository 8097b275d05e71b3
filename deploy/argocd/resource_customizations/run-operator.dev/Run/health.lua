-- The health of a Run for Argo CD, from the conditions Ready, Suspended, Reconciling and Stalled (docs/reasons.md).
-- It needs no standard library: Argo CD runs it with libraries off.

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

local ready = condition("Ready")

-- A deletion cancels the run first; the object stays until the run is seen to have ended.
if obj.metadata.deletionTimestamp ~= nil then
  if ready ~= nil then
    return health("Progressing", "Being deleted: " .. ready.message)
  end
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

if is_true(ready) then
  return health("Healthy", ready.message)
end

local suspended = condition("Suspended")
if is_true(suspended) then
  return health("Suspended", suspended.message)
end

local reconciling = condition("Reconciling")
if is_true(reconciling) then
  return health("Progressing", reconciling.message)
end

if ready ~= nil then
  return health("Progressing", ready.message)
end
return health("Progressing", "Waiting for run-operator")
