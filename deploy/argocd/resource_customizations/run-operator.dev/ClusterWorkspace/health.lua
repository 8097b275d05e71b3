-- The health of a Workspace or ClusterWorkspace for Argo CD, from the conditions Ready, Reconciling and Stalled (docs/reasons.md).
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
local suspended = obj.spec ~= nil and obj.spec.suspend == true

-- It is removed when the Runs that it submitted have ended; the message names them.
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

-- It is still Ready: submitted Runs continue.
if is_true(ready) and suspended then
  return health("Suspended", "spec.suspend holds new Runs; submitted ones go on")
end

if is_true(ready) then
  return health("Healthy", ready.message)
end

local reconciling = condition("Reconciling")
if is_true(reconciling) then
  return health("Progressing", reconciling.message)
end

if ready ~= nil then
  return health("Progressing", ready.message)
end
return health("Progressing", "Waiting for run-operator")
