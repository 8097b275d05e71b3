package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/utils"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The field manager and the group of the owner labels of the kustomize-controller.
var owner = ssa.Owner{Field: "kustomize-controller", Group: "kustomize.toolkit.fluxcd.io"}

// An object with this annotation is created anew where a field of it is immutable.
var forced = map[string]string{owner.Group + "/force": "enabled"}

type change struct{ Subject, Action string }

// reconcile does a part of what the kustomize-controller does with a Kustomization `demo`, by the library that it
// does it with: apply and wait, detect drift, or collect what is gone from Git.
func reconcile(ctx context.Context, command string, args []string) error {
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig")
	namespace := flags.String("namespace", "", "targetNamespace")
	force := flags.Bool("force", false, "spec.force")
	timeout := flags.Duration("timeout", 0, "wait for health so long; 0: don't wait")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	cluster, err := client.New(config, client.Options{Scheme: runtime.NewScheme()})
	if err != nil {
		return err
	}
	poller := polling.NewStatusPoller(cluster, cluster.RESTMapper(), polling.Options{})
	manager := ssa.NewResourceManager(cluster, poller, owner)
	all, err := utils.ReadObjects(os.Stdin)
	if err != nil {
		return err
	}
	for _, one := range all {
		if one.GetNamespace() == "" && one.GetKind() != "ClusterWorkspace" {
			one.SetNamespace(*namespace)
		}
	}
	manager.SetOwnerLabels(all, "demo", *namespace)
	switch command {
	case "diff":
		return drift(ctx, manager, all, *force)
	case "delete":
		options := ssa.DefaultDeleteOptions()
		options.Exclusions = map[string]string{owner.Group + "/prune": "disabled"}
		options.Inclusions = manager.GetOwnerLabels("demo", *namespace)
		set, err := manager.DeleteAll(ctx, all, options)
		if err != nil {
			return err
		}
		return print(changes(set))
	}
	options := ssa.DefaultApplyOptions()
	options.Force = *force
	options.ForceSelector = forced
	set, err := manager.ApplyAll(ctx, all, options)
	if err != nil {
		return err
	}
	if *timeout > 0 {
		wait := ssa.WaitOptions{Interval: 200 * time.Millisecond, Timeout: *timeout, FailFast: true}
		if err := manager.Wait(all, wait); err != nil {
			return err
		}
	}
	return print(changes(set))
}

// drift prints the objects that Flux would apply anew.
func drift(ctx context.Context, manager *ssa.ResourceManager, all []*unstructured.Unstructured, force bool) error {
	options := ssa.DefaultDiffOptions()
	options.Force = force
	options.ForceSelector = forced
	found := []string{}
	for _, one := range all {
		entry, live, merged, err := manager.Diff(ctx, one, options)
		if err != nil {
			return err
		}
		if entry.Action == ssa.UnchangedAction {
			continue
		}
		before, err := json.Marshal(live)
		if err != nil {
			return err
		}
		after, err := json.Marshal(merged)
		if err != nil {
			return err
		}
		found = append(found, fmt.Sprintf("%s %s: %s is not %s", entry.Subject, entry.Action, before, after))
	}
	return print(found)
}

func changes(set *ssa.ChangeSet) []change {
	found := []change{}
	for _, entry := range set.Entries {
		found = append(found, change{entry.Subject, entry.Action.String()})
	}
	return found
}
