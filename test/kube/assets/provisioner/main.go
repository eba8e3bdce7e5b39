// Command provisioner makes and removes node-local volumes for the test cluster's default StorageClass.
//
// It runs on the machine that carries every node, so a volume is a folder below --base, one sub-folder per node.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// provisionerName is what the StorageClass names.
const provisionerName = "kube.howdah.dev/local"

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig `file` of the cluster")
	base := flag.String("base", "", "`folder` that holds the volumes, one sub-folder per node")
	flag.Parse()
	if err := run(*kubeconfig, *base); err != nil {
		fmt.Fprintln(os.Stderr, "provisioner:", err)
		os.Exit(1)
	}
}

func run(kubeconfig, base string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	config.UserAgent = "local-provisioner"
	config.QPS, config.Burst = 100, 200
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	ctx, stop := signal.NotifyContext(klog.NewContext(context.Background(), klog.Background()), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	go expandClaims(ctx, clients)
	controller.NewProvisionController(ctx, clients, provisionerName, localVolumes{base: base},
		controller.LeaderElection(false)).Run(ctx)
	return nil
}
