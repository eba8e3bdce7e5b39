//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/test/testkit/place"
)

// aheadOfTime is a backup-controller whose clock is ahead, in a process on this machine. It has the rights of the suite's own.
type aheadOfTime struct {
	bed                *bed
	binary, kubeconfig string
	agent              string // the image of Jobs
	running            *exec.Cmd
	// since is when it was started, by its own clock.
	since time.Time
}

func kubectl(t *testing.T) string { return place.Kubectl(t) }

// aheadOfTime builds the controller, and stops it when the test ends.
func (b *bed) aheadOfTime() *aheadOfTime {
	b.Helper()
	folder := b.TempDir()
	a := &aheadOfTime{bed: b, binary: filepath.Join(folder, "backup-controller.test"), kubeconfig: filepath.Join(folder, "kubeconfig")}
	build := exec.CommandContext(b.Context(), "go", "test", "-c", "-tags=e2e", "-o", a.binary, "howdah.dev/howdah/cmd/backup-controller")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build the controller: %v: %s", err, out)
	}
	config, err := clientcmd.LoadFromFile(os.Getenv("KUBECONFIG"))
	b.Must(err)
	for _, user := range config.AuthInfos {
		user.Impersonate = "system:serviceaccount:" + suite + ":backup-controller"
	}
	b.Must(clientcmd.WriteToFile(*config, a.kubeconfig))
	deployment := &appsv1.Deployment{}
	b.Must(b.Get(b.Context(), client.ObjectKey{Namespace: suite, Name: "backup-controller"}, deployment))
	for _, argument := range deployment.Spec.Template.Spec.Containers[0].Args {
		if image, found := strings.CutPrefix(argument, "--agent-image="); found {
			a.agent = image
		}
	}
	b.Cleanup(a.stop)
	return a
}

// start runs the controller with a clock that is ahead by so much, after it stopped one that runs.
func (a *aheadOfTime) start(ahead time.Duration) {
	a.bed.Helper()
	a.stop()
	a.since = time.Now().Add(ahead).Truncate(time.Second)
	a.running = exec.Command(a.binary, "-test.run=^TestTheControllerRunsAheadOfItsTime$", "-test.v")
	a.running.Env = append(os.Environ(), "KUBECONFIG="+a.kubeconfig, "HOWDAH_TEST_AHEAD="+ahead.String(), "HOWDAH_TEST_NAMESPACE="+a.bed.Namespace, "HOWDAH_TEST_AGENT="+a.agent)
	a.running.Stdout, a.running.Stderr = a.bed.Output(), a.bed.Output()
	a.bed.Must(a.running.Start())
}

func (a *aheadOfTime) stop() {
	if a.running == nil {
		return
	}
	_ = a.running.Process.Signal(os.Interrupt)
	if err := a.running.Wait(); err != nil {
		a.bed.Errorf("the controller that is ahead ended with %v", err)
	}
	a.running = nil
}
