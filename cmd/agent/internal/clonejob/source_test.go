package clonejob

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/initialize"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
)

func TestACopyIsNotTakenForAReplicaOfTheSource(t *testing.T) {
	s := source{settings.Paths{PeerTLSDir: "/tls", Port: 5432}}
	if got := s.connInfo(origin{host: "shop-rw", address: "10.0.0.1"}); strings.Contains(got, "application_name") || !strings.Contains(got, "hostaddr='10.0.0.1'") {
		t.Errorf("pg_basebackup connects with %s, by another name than its own", got)
	}
}

func TestACloneEndsIfTheApplicationIsNotInTheData(t *testing.T) {
	at := origin{databases: []string{"orders", "web"}, roles: []string{"clerk"}}
	for says, task := range map[string]agentapi.CloneJob{
		"":                                   {Database: "orders", Owner: "clerk"},
		"write one of these: orders, web.":   {Database: "app", Owner: "clerk"},
		"has no role app, which spec.bootst": {Database: "web", Owner: "app"},
	} {
		err, failure := Worker{Clone: initialize.Clone{Task: task}}.has(at), &job.Failure{}
		if (err == nil) != (says == "") || err != nil && (!strings.Contains(err.Error(), says) || !errors.As(err, &failure) || !failure.Final) {
			t.Errorf("%+v: %v", task, err)
		}
	}
	if err := (Worker{Clone: initialize.Clone{Task: agentapi.CloneJob{Database: "a"}}}).has(origin{}); err == nil || !strings.Contains(err.Error(), "it has no database that an application could use") {
		t.Errorf("a source without any: %v", err)
	}
}

func TestTheWaitForASourceEndsWithThePod(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	w := Worker{
		Clone:    initialize.Clone{Task: agentapi.CloneJob{Cluster: "shop", Hosts: []string{"none.invalid"}}, Report: func(job.Progress) { stop() }},
		Patience: Patience{Every: time.Hour, Away: time.Hour},
	}
	if _, err := w.find(ctx, source{settings.Paths{PeerTLSDir: t.TempDir()}}); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}
