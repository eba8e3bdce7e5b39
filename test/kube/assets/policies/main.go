// Command policies has a node of the test cluster enforce the NetworkPolicies of its pods, by rules of nftables.
//
// The rules stay when it ends: like a node that has lost the API server, the kernel continues with what it knew.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// again is when rules that nft has refused are tried once more.
const again = time.Second

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig `file` of the cluster")
	node := flag.String("node", "", "`name` of the node that this runs on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, *kubeconfig, *node); err != nil {
		fmt.Fprintln(os.Stderr, "policies:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig, node string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	config.UserAgent = "policies"
	config.ContentType = "application/vnd.kubernetes.protobuf"
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithTransform(slim))
	changed := make(chan struct{}, 1)
	seen := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { seen() }, UpdateFunc: func(any, any) { seen() }, DeleteFunc: func(any) { seen() },
	}
	for _, informer := range []cache.SharedIndexInformer{
		factory.Core().V1().Pods().Informer(), factory.Core().V1().Namespaces().Informer(), factory.Networking().V1().NetworkPolicies().Informer(),
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	seen()
	keep(ctx, changed, func() (string, error) {
		w, err := observe(factory)
		return ruleset(node, w), err
	})
	return nil
}

// slim drops what fills the memory of four nodes on one machine.
func slim(object any) (any, error) {
	if accessor, ok := object.(metav1.ObjectMetaAccessor); ok {
		accessor.GetObjectMeta().SetManagedFields(nil)
		accessor.GetObjectMeta().SetAnnotations(nil)
	}
	if pod, ok := object.(*corev1.Pod); ok {
		spec := corev1.PodSpec{NodeName: pod.Spec.NodeName, HostNetwork: pod.Spec.HostNetwork}
		for _, container := range pod.Spec.Containers {
			spec.Containers = append(spec.Containers, corev1.Container{Ports: container.Ports})
		}
		pod.Spec = spec
		pod.Status = corev1.PodStatus{Phase: pod.Status.Phase, PodIPs: pod.Status.PodIPs}
	}
	return object, nil
}

func observe(factory informers.SharedInformerFactory) (w world, err error) {
	if w.pods, err = factory.Core().V1().Pods().Lister().List(labels.Everything()); err != nil {
		return w, err
	}
	if w.policies, err = factory.Networking().V1().NetworkPolicies().Lister().List(labels.Everything()); err != nil {
		return w, err
	}
	namespaces, err := factory.Core().V1().Namespaces().Lister().List(labels.Everything())
	w.namespaces = map[string]labels.Set{}
	for _, namespace := range namespaces {
		w.namespaces[namespace.Name] = namespace.Labels
	}
	return w, err
}

// keep gives nft the rules whenever they are others than before.
func keep(ctx context.Context, changed <-chan struct{}, rules func() (string, error)) {
	var applied string
	var retry <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-retry:
		}
		retry = nil
		wanted, err := rules()
		if err == nil && wanted == applied {
			continue
		}
		if err == nil {
			err = apply(ctx, wanted)
		}
		if err != nil {
			slog.Error("apply", "error", err, "rules", wanted)
			retry = time.After(again)
			continue
		}
		applied = wanted
		slog.Info("applied", "chains", strings.Count(wanted, "chain ")-1)
	}
}

// apply is one transaction: the rules are all those before or all those after it.
func apply(ctx context.Context, rules string) error {
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
