package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/cache"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/diff"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync/common"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync/hook"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/kube"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/tracing"
	"github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// What Argo CD marks its objects with (annotation tracking, its default), and the field manager of what it applies.
const (
	trackingID = "argocd.argoproj.io/tracking-id"
	manager    = "argocd-controller"
)

var kubectl = &kube.KubectlCmd{
	Log: logr.Discard(), Tracer: tracing.NopTracer{},
	OnKubectlRun: func(string) (kube.CleanupFunc, error) { return func() {}, nil },
}

// application is what the arguments say of an Application.
type application struct {
	name, cm, kubeconfig, namespace, label string
	prune, serverSide                      bool
	manifests                              []*unstructured.Unstructured
	config                                 *rest.Config
}

func parse(command string, args []string) (*application, error) {
	app := &application{}
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.StringVar(&app.name, "app", "", "the Application's name")
	flags.StringVar(&app.cm, "cm", "", "argocd-cm")
	flags.StringVar(&app.kubeconfig, "kubeconfig", "", "kubeconfig")
	flags.StringVar(&app.namespace, "namespace", "", "the destination's namespace")
	flags.StringVar(&app.label, "label", "", "application.instanceLabelKey, for label tracking")
	flags.BoolVar(&app.prune, "prune", false, "automated.prune")
	flags.BoolVar(&app.serverSide, "server-side", false, "ServerSideApply=true")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return nil, err
	}
	if app.manifests, err = kube.SplitYAML(text); err != nil {
		return nil, err
	}
	for _, manifest := range app.manifests {
		app.track(manifest)
	}
	app.config, err = clientcmd.BuildConfigFromFlags("", app.kubeconfig)
	return app, err
}

// track puts an object into the destination's namespace and marks it as the Application's.
func (a *application) track(object *unstructured.Unstructured) {
	if object.GetNamespace() == "" && object.GetKind() != "ClusterWorkspace" {
		object.SetNamespace(a.namespace)
	}
	if a.label != "" {
		labels := object.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[a.label] = a.name
		object.SetLabels(labels)
		return
	}
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	key := kube.GetResourceKey(object)
	annotations[trackingID] = a.name + ":" + key.Group + "/" + key.Kind + ":" + key.Namespace + "/" + object.GetName()
	object.SetAnnotations(annotations)
}

// cluster is Argo CD's cache of the live objects: our kinds alone, which is what its `resource.inclusions` does.
func (a *application) cluster() cache.ClusterCache {
	remember := func(object *unstructured.Unstructured, _ bool) (any, bool) {
		owner, _, _ := strings.Cut(object.GetAnnotations()[trackingID], ":")
		if a.label != "" {
			owner = object.GetLabels()[a.label]
		}
		return owner, owner == a.name
	}
	return cache.NewClusterCache(a.config,
		cache.SetNamespaces([]string{a.namespace}),
		cache.SetClusterResources(true),
		cache.SetSettings(cache.Settings{ResourcesFilter: ours{}}),
		cache.SetLogr(logr.Discard()),
		cache.SetPopulateResourceInfoHandler(remember),
	)
}

type ours struct{}

func (ours) IsExcludedResource(group, _, _ string) bool { return group != "run-operator.dev" }

func (a *application) manages(live *cache.Resource) bool {
	owner, _ := live.Info.(string)
	return owner == a.name
}

// syncApp is one sync: hooks, waves and pruning as Argo CD's engine does them, health as our scripts say. Like the
// application controller it looks anew at what lives and goes on from where it was, until the sync has ended.
func syncApp(ctx context.Context, args []string) error {
	app, err := parse("sync", args)
	if err != nil {
		return err
	}
	scripts, err := overrides(ctx, app.cm)
	if err != nil {
		return err
	}
	cluster := app.cluster()
	if err := cluster.EnsureSynced(); err != nil {
		return err
	}
	defer cluster.Invalidate()
	started, phase, message := metav1.Now(), common.OperationRunning, ""
	var results []common.ResourceSyncResult
	// An automatic sync comes only where something differs; then its hooks run.
	skipHooks := false
	for first := true; !phase.Completed(); first = false {
		live, err := cluster.GetManagedLiveObjs(app.manifests, app.manages)
		if err != nil {
			return err
		}
		reconciled := sync.Reconcile(app.manifests, live, app.namespace, cluster)
		if first {
			differing, err := diff.DiffArray(reconciled.Target, reconciled.Live)
			if err != nil {
				return err
			}
			skipHooks = !differing.Modified
		}
		step, cleanup, err := sync.NewSyncContext("revision", reconciled, app.config, app.config, kubectl, app.namespace,
			sync.WithHealthOverride(scripts),
			sync.WithPrune(app.prune),
			sync.WithSkipHooks(skipHooks),
			sync.WithServerSideApply(app.serverSide),
			sync.WithServerSideApplyManager(manager),
			sync.WithInitialState(phase, message, results, started),
			sync.WithLogr(logr.Discard()),
		)
		if err != nil {
			return err
		}
		step.Sync()
		phase, message, results = step.GetState()
		cleanup()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
	if phase == common.OperationError {
		return fmt.Errorf("sync: %s", message)
	}
	type line struct {
		Kind, Name, Status, Hook, Phase, Message string
	}
	lines := []line{}
	for _, r := range results {
		lines = append(lines, line{
			r.ResourceKey.Kind, r.ResourceKey.Name, string(r.Status), string(r.HookType), string(r.HookPhase), r.Message,
		})
	}
	return print(lines)
}

// diffApp compares the manifests with what lives, both ways that Argo CD has: in memory (its default), and by the
// API server's dry run (`ServerSideDiff=true`). It prints what differs.
func diffApp(_ context.Context, args []string) error {
	app, err := parse("diff", args)
	if err != nil {
		return err
	}
	clusterCache := app.cluster()
	if err := clusterCache.EnsureSynced(); err != nil {
		return err
	}
	live, err := clusterCache.GetManagedLiveObjs(app.manifests, app.manages)
	if err != nil {
		return err
	}
	applier, cleanup, err := kubectl.ManageServerSideDiffDryRuns(app.config)
	if err != nil {
		return err
	}
	defer cleanup()
	differing := []string{}
	for _, wanted := range app.manifests {
		if hook.IsHook(wanted) {
			continue
		}
		for kind, options := range map[string][]diff.Option{
			"in memory": {},
			"server-side": {
				diff.WithServerSideDiff(true), diff.WithManager(manager), diff.WithIgnoreMutationWebhook(false),
				diff.WithServerSideDryRunner(diff.NewK8sServerSideDryRunner(applier)),
			},
		} {
			found, err := diff.Diff(wanted, live[kube.GetResourceKey(wanted)], options...)
			if err != nil {
				return fmt.Errorf("%s: %w", wanted.GetName(), err)
			}
			if found.Modified {
				differing = append(differing, fmt.Sprintf("%s %s, %s: %s is not %s", wanted.GetKind(), wanted.GetName(),
					kind, bytes.TrimSpace(found.NormalizedLive), bytes.TrimSpace(found.PredictedLive)))
			}
		}
	}
	return print(differing)
}

// manifests reads a file of Applications strictly.
func manifests(paths []string) error {
	count := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, document := range strings.Split(string(text), "\n---\n") {
			app := &v1alpha1.Application{}
			if err := yaml.UnmarshalStrict([]byte(document), app); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			if app.Kind != "Application" || app.Spec.Destination.Namespace == "" {
				return fmt.Errorf("%s: %s %s is no Application with a destination", path, app.Kind, app.Name)
			}
			count++
		}
	}
	return print(count)
}
