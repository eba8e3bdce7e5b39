package cluster

import (
	"context"

	"howdah.dev/test/kube/addons"
	"howdah.dev/test/kube/binaries"
)

// StartMetricsServer gives the cluster a metrics-server, building it if needed, and returns when it answers.
func (c *Cluster) StartMetricsServer(ctx context.Context) error {
	bin, err := c.Builder.Ensure(ctx, binaries.MetricsServer)
	if err != nil {
		return err
	}
	archive, err := c.programImage(bin, "metrics-server")
	if err != nil {
		return err
	}
	if err := c.Load(ctx, []string{archive}); err != nil {
		return err
	}
	return c.Report.Step(ctx, "metrics-server ready", func(ctx context.Context) error {
		if err := c.apply(ctx, addons.MetricsServer); err != nil {
			return err
		}
		_, err := c.kubectl(ctx, "wait", "apiservice/v1beta1.metrics.k8s.io", "--for=condition=Available", "--timeout="+readyTime.String())
		return err
	})
}
