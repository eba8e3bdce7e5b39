package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/kube"
	"howdah.dev/howdah/cmd/agent/internal/rowwriter"
	"howdah.dev/howdah/pkg/agentapi"
)

func failoverDrillCommand() *cobra.Command {
	return &cobra.Command{
		Use: "failover-drill", Short: "Write numbered rows while a fault is caused, in a Job", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return exit(job.Run(cmd.Context(), job.PodFiles(), runFailoverDrill))
		},
	}
}

func runFailoverDrill(ctx context.Context, task agentapi.FailoverDrillJob) (agentapi.FailoverDrillResult, error) {
	client, err := kube.InCluster()
	if err != nil {
		return agentapi.FailoverDrillResult{}, err
	}
	stop := make(chan struct{})
	reporter := job.NewHearingReporter(ctx, client, task.Object, onceTold(func() { close(stop) }))
	defer reporter.Close()
	slog.Info("writing rows", "host", task.Host)
	return rowwriter.Worker{
		Connect: rowwriter.Dialer(task.Host, agentapi.ClientTLSDir), Report: reporter.Report, Stop: stop,
		Now: time.Now, Pace: 50 * time.Millisecond, Patience: 2 * time.Minute,
	}.Run(ctx)
}

// onceTold calls stop once the status of the drill says that there is nothing more to measure.
func onceTold(stop func()) func(status json.RawMessage) {
	var once sync.Once
	return func(status json.RawMessage) {
		var drill struct {
			StopWriting bool `json:"stopWriting"`
		}
		if json.Unmarshal(status, &drill) == nil && drill.StopWriting {
			once.Do(stop)
		}
	}
}
