// Command demo shows the whole path on a real Kubernetes in this machine: a database, a backup while it is written to,
// a mistake, a restore to the moment before it, and an upgrade to a later major version. It can be run again at any
// time, and ends non-zero if anything is not as it must be.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	story := &story{began: time.Now()}
	if err := story.tell(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "\nthe demo failed after %s: %v\n", short(time.Since(story.began)), err)
		if story.kube != nil {
			fmt.Fprintf(os.Stderr, "the cluster is left as it is, to be looked at: export KUBECONFIG=%s\n", kubeconfig)
		}
		stop()
		os.Exit(1)
	}
}

// tell goes through the chapters. Each is done before the next begins.
func (s *story) tell(ctx context.Context) error {
	for _, chapter := range []struct {
		title string
		tell  func(context.Context) error
	}{
		{"build helm and the test bed", s.buildTools},
		{"build the suite's images", s.buildSuite},
		{"build images of PostgreSQL 15 and 17 from Debian's packages", s.buildPostgres},
		{"build Kubernetes and etcd", s.buildKubernetes},
		{"start Kubernetes and MinIO, and build the rest that these need", s.startCluster},
		{"install the suite with its chart", s.install},
		{"clear away what an earlier run left", s.clear},
		{"make a repository for backups", s.makeRepository},
		{"make the cluster shop, PostgreSQL 15", s.makeShop},
		{"load it with pgbench", s.load},
		{"take the Backup shop-first while it is written to", s.backUp},
		{"write on, and note the time", s.writeOn},
		{"delete half of the accounts by mistake", s.makeMistake},
		{"restore to the noted time into shop-before", s.restore},
		{"compare shop-before with what was noted", s.compareRestored},
		{"upgrade shop to PostgreSQL 17", s.upgrade},
		{"compare shop with what it was before the upgrade", s.compareUpgraded},
		{"scale backup-controller to 2", s.scale},
	} {
		if err := s.chapter(ctx, chapter.title, chapter.tell); err != nil {
			return fmt.Errorf("%s: %w", chapter.title, err)
		}
	}
	s.end()
	return nil
}
