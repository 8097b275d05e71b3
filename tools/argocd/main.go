// Argo CD's own libraries over our files and objects: its Lua engine and settings, its diff and its sync
// engine. The tests run it; nothing of the product needs it.
//
//	argocd health --cm FILE             objects (a JSON list on stdin) -> their health, in the same order
//	argocd actions --cm FILE            an object on stdin -> the names of the actions on offer
//	argocd act --cm FILE ACTION         an object on stdin -> what Argo CD would send: a merge patch, or a new object
//	argocd manifests FILE               Applications, read with Argo CD's own type; an unknown field is an error
//	argocd sync --cm FILE --app NAME …  applies manifests as an Application's sync does
//	argocd diff --app NAME …            what Argo CD would call out of sync
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func main() {
	// What is under way when the test ends it is terminated as a user's "Terminate" would.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "argocd:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("usage: argocd health|actions|act|manifests|sync|diff …")
	}
	switch command, rest := args[0], args[1:]; command {
	case "health":
		return health(ctx, rest)
	case "actions":
		return actions(ctx, rest)
	case "act":
		return act(ctx, rest)
	case "manifests":
		return manifests(rest)
	case "sync":
		return syncApp(ctx, rest)
	case "diff":
		return diffApp(ctx, rest)
	default:
		return fmt.Errorf("unknown command %q", command)
	}
}

// object is one Kubernetes object from stdin. Whole numbers are int64, as Argo CD's cache has them.
func object() (*unstructured.Unstructured, error) {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return nil, err
	}
	read := &unstructured.Unstructured{}
	return read, read.UnmarshalJSON(text)
}

func print(value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	fmt.Println(string(text))
	return nil
}
