package instancelog_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/howdah/cmd/kubectl-howdah/internal/instancelog"
)

// node has the logs of pods, as the API server returns them: with the time of each line.
type node struct {
	mu     sync.Mutex
	logs   map[string]string
	opened []corev1.PodLogOptions
}

func (n *node) open(_ context.Context, pod string, options *corev1.PodLogOptions) (io.ReadCloser, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.opened = append(n.opened, *options)
	log, there := n.logs[pod]
	if !there {
		return nil, errors.New("its container waits to start")
	}
	return io.NopCloser(strings.NewReader(log)), nil
}

func (n *node) write(pod, lines string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.logs[pod] += lines
}

func (n *node) pods(context.Context) (pods []instancelog.Pod, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name := range n.logs {
		pods = append(pods, instancelog.Pod{Name: name, Container: "postgres"})
	}
	return pods, nil
}

func (n *node) request() instancelog.Request {
	return instancelog.Request{Pods: n.pods, Open: n.open, Tail: -1, Level: "info", Format: instancelog.Text}
}

// line is one of a log, so many seconds after noon.
func line(second int, text string) string {
	return fmt.Sprintf("2026-09-19T12:00:%02d.5Z %s\n", second, text)
}

func show(t *testing.T, request instancelog.Request) (out, problems string, err error) {
	t.Helper()
	var o, p strings.Builder
	err = request.Show(t.Context(), &o, &p)
	return o.String(), p.String(), err
}

func TestLinesOfAllPodsAreOrderedByTime(t *testing.T) {
	n := &node{logs: map[string]string{
		"shop-0": line(1, "one") + line(4, "four") + line(5, "five"),
		"shop-1": line(2, "two") + line(3, "three"),
		"shop-2": line(6, "six"),
	}}
	out, problems, err := show(t, n.request())
	var words []string
	for written := range strings.Lines(out) {
		fields := strings.Fields(written)
		words = append(words, fields[1]+" "+fields[2])
	}
	if got, want := strings.Join(words, ", "), "shop-0 one, shop-1 two, shop-1 three, shop-0 four, shop-0 five, shop-2 six"; got != want || problems != "" || err != nil {
		t.Errorf("%s; %q, %v", got, problems, err)
	}
}

func TestARecordOfTheServerIsWrittenForPeopleOrAsItIs(t *testing.T) {
	record := `{"time":"2026-09-19T12:00:01.123Z","level":"ERROR","msg":"duplicate key","logger":"postgres","severity":"ERROR","user":"app","statement":"INSERT INTO t VALUES (?)"}`
	n := &node{logs: map[string]string{"shop-0": line(1, record) + line(2, "no JSON")}}
	request := n.request()
	for format, want := range map[instancelog.Format]string{
		instancelog.Text: "2026-09-19T12:00:01.123Z shop-0 ERROR postgres: duplicate key statement=\"INSERT INTO t VALUES (?)\" user=app\n" +
			"2026-09-19T12:00:02.500Z shop-0 no JSON\n",
		instancelog.JSON: `{"pod":"shop-0",` + record[1:] + "\n" + `{"pod":"shop-0","msg":"no JSON"}` + "\n",
	} {
		request.Format = format
		if out, _, err := show(t, request); out != want || err != nil {
			t.Errorf("%v:\n%s\nwant\n%s", err, out, want)
		}
	}
}

func TestRecordsBelowALevelAndThoseOfTheAgentCanBeLeftOut(t *testing.T) {
	n := &node{logs: map[string]string{"shop-0": line(1, `{"level":"INFO","msg":"a","logger":"postgres"}`) + line(2, `{"level":"WARN","msg":"b","logger":"postgres"}`) +
		line(3, `{"level":"ERROR","msg":"c"}`) + line(4, "panic: d")}}
	for want, set := range map[string]func(*instancelog.Request){
		"abcd": func(*instancelog.Request) {},
		"bcd":  func(r *instancelog.Request) { r.Level = "warn" },
		"ab":   func(r *instancelog.Request) { r.PostgresOnly = true },
		"b":    func(r *instancelog.Request) { r.PostgresOnly, r.Level = true, "warn" },
	} {
		request := n.request()
		set(&request)
		out, _, err := show(t, request)
		got := ""
		for written := range strings.Lines(out) {
			got += written[len(written)-2 : len(written)-1]
		}
		if got != want || err != nil {
			t.Errorf("%s instead of %s, %v", got, want, err)
		}
	}
}

func TestAPodWithoutALogHidesNoOther(t *testing.T) {
	n := &node{logs: map[string]string{"shop-0": line(1, "one")}}
	request := n.request()
	request.Pods = func(context.Context) ([]instancelog.Pod, error) {
		return []instancelog.Pod{{Name: "shop-0"}, {Name: "shop-1"}}, nil
	}
	out, problems, err := show(t, request)
	if !strings.Contains(out, "one") || !strings.Contains(problems, "shop-1 can't be read: its container waits to start") || err != nil {
		t.Errorf("%q, %q, %v", out, problems, err)
	}
	n.logs = nil
	if _, problems, err = show(t, request); err == nil || strings.Count(problems, "can't be read") != 2 {
		t.Errorf("%q, %v", problems, err)
	}
	request.Pods = n.pods
	if _, _, err = show(t, request); err == nil {
		t.Error("there is no pod, and no error")
	}
}

func TestTheLimitsReachTheAPIServer(t *testing.T) {
	n := &node{logs: map[string]string{"shop-0": ""}}
	request := n.request()
	request.Since, request.Tail, request.Previous = 90*time.Second, 7, true
	if _, _, err := show(t, request); err != nil {
		t.Fatal(err)
	}
	o := n.opened[0]
	if *o.SinceSeconds != 90 || *o.TailLines != 7 || !o.Previous || !o.Timestamps || o.Follow || o.Container != "postgres" {
		t.Errorf("%+v", o)
	}
}

// written receives lines as they come.
type written chan string

func (w written) Write(p []byte) (int, error) {
	w <- strings.TrimSuffix(string(p), "\n")
	return len(p), nil
}

func (w written) expect(t *testing.T, pod, text string) {
	t.Helper()
	select {
	case got := <-w:
		if !strings.HasSuffix(got, " "+pod+" "+text) {
			t.Errorf("%q instead of %s of %s", got, text, pod)
		}
	case <-time.After(time.Minute):
		t.Fatalf("%s of %s was not written", text, pod)
	}
}

func TestALogThatIsFollowedGoesOnWithNewLinesAndNewPodsAndRepeatsNothing(t *testing.T) {
	n := &node{logs: map[string]string{"shop-0": line(1, "one"), "shop-1": ""}}
	request := n.request()
	request.Follow = true
	ctx, stop := context.WithCancel(t.Context())
	out, ended := make(written), make(chan error, 1)
	go func() { ended <- request.Show(ctx, out, io.Discard) }()
	out.expect(t, "shop-0", "one") // although shop-1 has said nothing yet
	n.write("shop-0", line(1, "one again, which has its time")+line(3, "three"))
	out.expect(t, "shop-0", "three")
	n.write("shop-2", line(4, "four"))
	out.expect(t, "shop-2", "four")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if last := n.opened[len(n.opened)-1]; !last.Follow || n.opened[0].SinceTime != nil {
		t.Errorf("%+v", n.opened)
	}
}
