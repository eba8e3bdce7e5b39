package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/pkg/manager"
)

const namespace = "demo"

// kubeconfig of the cluster in this machine; the same variable as in the Makefile.
var kubeconfig = cmp.Or(os.Getenv("LOCAL_KUBECONFIG"), "build/kubeconfig")

// story is what one run of the demo knows.
type story struct {
	began    time.Time
	chapters []chapterTime
	kube     client.Client

	kubectl    string // path of the program
	storeEnv   map[string]string
	noted      time.Time   // the moment before the mistake
	beforeNote fingerprint // of shop, then
	beforeLeap fingerprint // of shop, before the upgrade
	downtime   time.Duration
}

type chapterTime struct {
	title string
	took  time.Duration
}

// chapter tells one part of the story, with a headline and the time that it took.
func (s *story) chapter(ctx context.Context, title string, tell func(context.Context) error) error {
	fmt.Printf("\n%6s  %s\n", short(time.Since(s.began)), title)
	began := time.Now()
	err := tell(ctx)
	s.chapters = append(s.chapters, chapterTime{title, time.Since(began)})
	return err
}

// say prints what is going on inside a chapter.
func (s *story) say(format string, args ...any) {
	fmt.Printf("%6s    %s\n", short(time.Since(s.began)), fmt.Sprintf(format, args...))
}

func short(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }

func absolute(path string) string {
	if whole, err := filepath.Abs(path); err == nil {
		return whole
	}
	return path
}

// connect makes the client, once there is a cluster to talk to.
func (s *story) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	s.kube, err = client.New(config, client.Options{Scheme: manager.Scheme()})
	return err
}

func (s *story) end() {
	fmt.Printf("\nAll is well. What was done, and how long it took:\n\n")
	for _, c := range s.chapters {
		fmt.Printf("  %7s  %s\n", short(c.took), c.title)
	}
	fmt.Printf("  %7s  together\n", short(time.Since(s.began)))
	fmt.Printf(`
The mistake was at %s and shop-before is from before it.
The upgrade had shop down for %s.

Look at it:

  export KUBECONFIG=%s PATH=$PATH:%s
  kubectl -n %s get howdah
  kubectl -n %s describe restore shop-before
  kubectl -n howdah-system get pods
  kubectl -n %s exec -it shop-before-client -- psql -c 'SELECT count(*) FROM pgbench_accounts'

Take it away: make demo-down
`, s.noted.Format(time.RFC3339Nano), short(s.downtime), absolute(kubeconfig), folderOf(s.kubectl), namespace, namespace, namespace)
}
