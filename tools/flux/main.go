// Flux's own libraries, and the kstatus library of Kubernetes, over our files and objects. The tests run it;
// nothing of the product needs it.
//
//	flux kstatus                  objects (a JSON list on stdin) -> their kstatus, by both libraries that there are
//	flux health KUSTOMIZATION     the same by the file's healthCheckExprs
//	flux manifests FILE…          reads Flux's manifests with Flux's own types; an unknown field is an error, and so is
//	                              a HelmRelease that is uninstalled as a remedy
//	flux apply --kubeconfig … [--force] [--timeout D]   applies manifests (stdin) as the kustomize-controller does
//	flux diff --kubeconfig …      its drift detection: what differs
//	flux delete --kubeconfig …    its garbage collection of manifests that are gone from Git
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "flux:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("usage: flux kstatus|health|manifests|apply|diff|delete …")
	}
	switch command, rest := args[0], args[1:]; command {
	case "kstatus":
		return computed()
	case "health":
		return health(ctx, rest)
	case "manifests":
		return manifests(rest)
	case "apply", "diff", "delete":
		return reconcile(ctx, command, rest)
	default:
		return fmt.Errorf("unknown command %q", command)
	}
}

// objects is the JSON list on stdin.
func objects() ([]*unstructured.Unstructured, error) {
	var texts []json.RawMessage
	if err := json.NewDecoder(os.Stdin).Decode(&texts); err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	for _, text := range texts {
		one := &unstructured.Unstructured{}
		if err := one.UnmarshalJSON(text); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func print(value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	fmt.Println(string(text))
	return nil
}
