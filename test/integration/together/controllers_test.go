//go:build integration

package together

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"howdah.dev/howdah/test/testkit/apiserver"
)

// programs are the controllers as they are built.
var programs = []string{"db-controller", "restore-controller", "upgrade-controller"}

// build makes the controllers' binaries in a folder of the test.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	args := []string{"build", "-o", dir + "/"}
	for _, name := range programs {
		args = append(args, "howdah.dev/howdah/cmd/"+name)
	}
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("build the controllers: %v\n%s", err, out)
	}
	return dir
}

// kubeconfig leads a controller to the API server of the tests.
func kubeconfig(t *testing.T) string {
	t.Helper()
	to, file := apiserver.Config(), filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:  map[string]*clientcmdapi.Cluster{"c": {Server: to.Host, CertificateAuthorityData: to.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {ClientCertificateData: to.CertData, ClientKeyData: to.KeyData}},
		Contexts:  map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}}, CurrentContext: "x",
	}, file)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// controllers are the processes, of which some die now and then.
type controllers struct {
	*testing.T
	dir, kubeconfig string
	running         map[string]*exec.Cmd
	kills, ghosts   int
	cpu             map[string]time.Duration
}

// runControllers starts them all, and hurts one whenever clusters have come about as many states further as `every` says, until
// the function that it returns is called. A killed one is started again at once; now and then one is frozen instead, and wakes
// beside its successor, as a leader does that was cut off and has yet to notice.
func runControllers(t *testing.T, random *rand.Rand, states <-chan struct{}, every int) (stop func()) {
	t.Helper()
	c := &controllers{T: t, dir: build(t), kubeconfig: kubeconfig(t), running: map[string]*exec.Cmd{}, cpu: map[string]time.Duration{}}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		runtime.LockOSThread() // the children end with the thread that made them
		defer close(done)
		for _, name := range programs {
			c.start(name)
		}
		for left := every; ; {
			select {
			case <-quit:
				for _, name := range programs {
					c.kill(c.running[name])
				}
				t.Logf("%d controllers were killed, %d more were frozen and woke beside their successor; CPU %v", c.kills, c.ghosts, c.cpu)
				return
			case <-states:
				if left--; left <= 0 {
					c.hurt(random)
					left = 1 + random.IntN(2*every)
				}
			}
		}
	}()
	stop = sync.OnceFunc(func() { close(quit); <-done })
	t.Cleanup(stop)
	return stop
}

// hurt kills a controller, or lets two of it run for a while.
func (c *controllers) hurt(random *rand.Rand) {
	name := programs[random.IntN(len(programs))]
	old := c.running[name]
	if random.IntN(3) > 0 {
		c.kills++
		c.kill(old)
		c.start(name)
		return
	}
	c.ghosts++
	_ = old.Process.Signal(syscall.SIGSTOP)
	c.start(name)
	time.Sleep(2 * time.Second) // the successor comes up, and works on
	_ = old.Process.Signal(syscall.SIGCONT)
	time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
	c.kill(old)
}

func (c *controllers) kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	c.cpu[filepath.Base(cmd.Path)] += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if out := cmd.Stderr.(*bytes.Buffer).String(); bytes.Contains([]byte(out), []byte("panic:")) {
		c.Errorf("%s panicked:\n%s", cmd.Path, out)
	}
}

func (c *controllers) start(name string) {
	cmd := exec.Command(filepath.Join(c.dir, name), "--agent-image=agent:1", "--postgres-images=17=postgres:17,18=postgres:18",
		"--metrics-bind-address=0", "--health-probe-bind-address=0", "--log-level=error")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig)
	cmd.Stderr = &bytes.Buffer{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		panic(fmt.Sprintf("start %s: %v", name, err)) // it was built a moment ago
	}
	c.running[name] = cmd
}
