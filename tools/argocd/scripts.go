package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	enginehealth "github.com/argoproj/argo-cd/gitops-engine/pkg/health"
	"github.com/argoproj/argo-cd/v3/util/lua"
	jsonpatch "github.com/evanphx/json-patch"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// healthOf is Argo CD's judgement of an object: what the application controller asks, health script and all.
func healthOf(vm lua.VM, object *unstructured.Unstructured) (*enginehealth.HealthStatus, error) {
	script, libraries, err := vm.GetHealthScript(object)
	if err != nil {
		return nil, err
	}
	if script == "" || libraries {
		return nil, fmt.Errorf("no health script without libraries for %s", object.GetKind())
	}
	return vm.ExecuteHealthLua(object, script)
}

func health(ctx context.Context, args []string) error {
	vm, _, err := machine(ctx, "health", args)
	if err != nil {
		return err
	}
	var texts []json.RawMessage
	if err := json.NewDecoder(os.Stdin).Decode(&texts); err != nil {
		return err
	}
	found := make([]*enginehealth.HealthStatus, 0, len(texts))
	for _, text := range texts {
		read := &unstructured.Unstructured{}
		if err := read.UnmarshalJSON(text); err != nil {
			return err
		}
		status, err := healthOf(vm, read)
		if err != nil {
			return fmt.Errorf("%s: %w", read.GetName(), err)
		}
		found = append(found, status)
	}
	return print(found)
}

// offered is the names of the actions that Argo CD lets its users choose for an object.
func offered(vm lua.VM, object *unstructured.Unstructured) ([]string, error) {
	scripts, err := vm.GetResourceActionDiscovery(object)
	if err != nil {
		return nil, err
	}
	found, err := vm.ExecuteResourceActionDiscovery(object, scripts)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, action := range found {
		if !action.Disabled {
			names = append(names, action.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func actions(ctx context.Context, args []string) error {
	vm, _, err := machine(ctx, "actions", args)
	if err != nil {
		return err
	}
	live, err := object()
	if err != nil {
		return err
	}
	names, err := offered(vm, live)
	if err != nil {
		return err
	}
	return print(names)
}

// outcome is what an action makes of an object: a patched one, or another that is created.
func outcome(vm lua.VM, object *unstructured.Unstructured, name string) (lua.ImpactedResource, error) {
	none := lua.ImpactedResource{}
	action, err := vm.GetResourceAction(object, name)
	if err != nil {
		return none, err
	}
	impacted, err := vm.ExecuteResourceAction(object, action.ActionLua, nil)
	if err != nil {
		return none, err
	}
	if len(impacted) != 1 {
		return none, fmt.Errorf("%s: want one operation, got %d", name, len(impacted))
	}
	return impacted[0], nil
}

// act prints what Argo CD's server would send for an action: the merge patch, made as by its `patchResource`, or the
// object that is created.
func act(ctx context.Context, args []string) error {
	vm, rest, err := machine(ctx, "act", args)
	if err != nil {
		return err
	}
	if len(rest) != 1 {
		return fmt.Errorf("act: which action?")
	}
	live, err := object()
	if err != nil {
		return err
	}
	made, err := outcome(vm, live, rest[0])
	if err != nil {
		return err
	}
	if made.K8SOperation == lua.CreateOperation {
		return print(made.UnstructuredObj)
	}
	before, err := json.Marshal(live)
	if err != nil {
		return err
	}
	after, err := json.Marshal(made.UnstructuredObj)
	if err != nil {
		return err
	}
	patch, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		return err
	}
	return print(json.RawMessage(patch))
}
