-- The actions that Argo CD offers for a Workspace or ClusterWorkspace.

local actions = {}
if obj.metadata.deletionTimestamp ~= nil then
  return actions
end
if obj.spec ~= nil and obj.spec.suspend == true then
  actions["resume"] = { ["displayName"] = "Submit new Runs again", ["iconClass"] = "fa fa-fw fa-play" }
else
  actions["suspend"] = { ["displayName"] = "Hold new Runs", ["iconClass"] = "fa fa-fw fa-pause" }
end
return actions
