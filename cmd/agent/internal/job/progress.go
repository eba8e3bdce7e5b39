package job

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"sync"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/kube"
	"howdah.dev/howdah/pkg/agentapi"
)

const (
	progressManager  = "howdah-worker"
	progressInterval = 2 * time.Second
	// configMapInterval is longer: a controller copies each report into a status.
	configMapInterval = 5 * time.Second
	apiVersion        = "howdah.dev/v1alpha1"
)

// Progress is how far the work is.
type Progress struct {
	Phase      string // such as Copying
	DoneBytes  int64
	TotalBytes int64  // 0: not known
	Message    string // for a person, such as the position that replay has reached
}

// Reporter writes progress into the status of the job's own object: at most every two seconds, and only what changed.
type Reporter struct {
	apply  func(ctx context.Context, body any) error
	object agentapi.Object
	now    func() time.Time

	mu    sync.Mutex
	state Progress
	wake  chan struct{}
	stop  context.CancelFunc
	done  chan struct{}

	meter meter // used by the sending goroutine only
}

// NewReporter starts to report for object. A nil client reports nowhere; so does one that fails: work continues without
// its progress being seen. Close ends it.
func NewReporter(ctx context.Context, client *kube.Client, object agentapi.Object) *Reporter {
	apply := func(context.Context, any) error { return nil }
	if client != nil {
		path := statusPath(object)
		apply = func(ctx context.Context, body any) error { return client.Apply(ctx, path, progressManager, body) }
	}
	return startReporter(ctx, object, apply, time.Now, progressInterval)
}

// NewHearingReporter is NewReporter, and has hear called with the status of the object as each report has left it: so a Job learns what its
// controller has written there, with the right to report and no other.
func NewHearingReporter(ctx context.Context, client *kube.Client, object agentapi.Object, hear func(status json.RawMessage)) *Reporter {
	path := statusPath(object)
	apply := func(ctx context.Context, body any) error {
		var answer struct {
			Status json.RawMessage `json:"status"`
		}
		if err := client.ApplyAndRead(ctx, path, progressManager, body, &answer); err != nil {
			return err
		}
		hear(answer.Status)
		return nil
	}
	return startReporter(ctx, object, apply, time.Now, progressInterval)
}

// NewConfigMapReporter is NewReporter for an object that is a ConfigMap: progress is the value of a key. It is for a Job whose object is
// read by others, who must not take from the Job what its controller alone knows.
func NewConfigMapReporter(ctx context.Context, client *kube.Client, object agentapi.Object, key string) *Reporter {
	apply := func(ctx context.Context, body any) error {
		return ApplyKey(ctx, client, object, progressManager, key, body.(applyBody).Status.Progress)
	}
	return startReporter(ctx, object, apply, time.Now, configMapInterval)
}

// ApplyKey writes a value as JSON into a key of a ConfigMap, as its manager. The other keys stay.
func ApplyKey(ctx context.Context, client *kube.Client, object agentapi.Object, manager, key string, value any) error {
	_, err := ExchangeKey(ctx, client, object, manager, key, value)
	return err
}

// ExchangeKey is ApplyKey, and returns what all keys have then: so a Job learns what its controller has written there, with the right to
// report and no other.
func ExchangeKey(ctx context.Context, client *kube.Client, object agentapi.Object, manager, key string, value any) (map[string]string, error) {
	if client == nil {
		return nil, nil
	}
	content, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	metadata := map[string]string{"name": object.Name}
	if object.UID != "" {
		metadata["uid"] = object.UID
	}
	body := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": map[string]string{key: string(content)}}
	var answer struct {
		Data map[string]string `json:"data"`
	}
	err = client.ApplyAndRead(ctx, "/api/v1/namespaces/"+object.Namespace+"/configmaps/"+object.Name, manager, body, &answer)
	return answer.Data, err
}

func statusPath(object agentapi.Object) string {
	return "/apis/" + apiVersion + "/namespaces/" + object.Namespace + "/" + object.Resource + "/" + object.Name + "/status"
}

func startReporter(ctx context.Context, object agentapi.Object, apply func(context.Context, any) error, now func() time.Time, interval time.Duration) *Reporter {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &Reporter{
		apply: apply, object: object, now: now,
		wake: make(chan struct{}, 1), stop: cancel, done: make(chan struct{}),
	}
	go r.loop(ctx, interval)
	return r
}

// Report notes how far the work is. It never waits.
func (r *Reporter) Report(p Progress) {
	r.mu.Lock()
	r.state = p
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Close sends what was reported last, and ends the reporter.
func (r *Reporter) Close() {
	r.stop()
	<-r.done
}

func (r *Reporter) loop(ctx context.Context, interval time.Duration) {
	defer close(r.done)
	sent := Progress{}
	for {
		select {
		case <-ctx.Done():
			r.send(context.WithoutCancel(ctx), &sent)
			return
		case <-r.wake:
		}
		r.send(ctx, &sent)
		select {
		case <-ctx.Done():
		case <-time.After(interval):
		}
	}
}

func (r *Reporter) send(ctx context.Context, sent *Progress) {
	r.mu.Lock()
	state := r.state
	r.mu.Unlock()
	if state == *sent {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := r.apply(ctx, r.body(state)); err != nil {
		if ctx.Err() == nil || ctx.Err() == context.DeadlineExceeded {
			slog.Warn("progress can't be reported; the work continues", "error", err)
		}
		return
	}
	*sent = state
}

// progress is v1alpha1.Progress, written here so that the agent links no Kubernetes types.
type progress struct {
	Phase          string    `json:"phase"`
	DoneBytes      int64     `json:"doneBytes,omitempty"`
	TotalBytes     int64     `json:"totalBytes,omitempty"`
	Percent        int32     `json:"percent,omitempty"`
	BytesPerSecond int64     `json:"bytesPerSecond,omitempty"`
	SecondsLeft    int64     `json:"secondsLeft,omitempty"`
	Message        string    `json:"message,omitempty"`
	UpdatedAt      time.Time `json:"updatedAt"`
}

type applyBody struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
		UID  string `json:"uid,omitempty"` // another object of this name is a conflict
	} `json:"metadata"`
	Status struct {
		Progress progress `json:"progress"`
	} `json:"status"`
}

func (r *Reporter) body(p Progress) applyBody {
	now := r.now()
	rate := r.meter.rate(p.Phase, p.DoneBytes, now)
	body := applyBody{APIVersion: apiVersion, Kind: r.object.Kind}
	body.Metadata.Name, body.Metadata.UID = r.object.Name, r.object.UID
	body.Status.Progress = progress{
		Phase: p.Phase, DoneBytes: p.DoneBytes, TotalBytes: p.TotalBytes, Message: p.Message,
		Percent: percent(p), BytesPerSecond: rate, SecondsLeft: secondsLeft(p, rate), UpdatedAt: now.UTC().Truncate(time.Second),
	}
	return body
}

func percent(p Progress) int32 {
	if p.TotalBytes <= 0 {
		return 0
	}
	return int32(min(100, max(0, float64(p.DoneBytes)*100/float64(p.TotalBytes))))
}

func secondsLeft(p Progress, rate int64) int64 {
	if rate <= 0 || p.DoneBytes >= p.TotalBytes {
		return 0
	}
	return int64(math.Ceil(float64(p.TotalBytes-p.DoneBytes) / float64(rate)))
}

// meter measures bytes per second, smoothed over about three reports, anew in each phase.
type meter struct {
	phase   string
	at      time.Time
	done    int64
	average float64
	known   bool
}

func (m *meter) rate(phase string, done int64, now time.Time) int64 {
	seconds := now.Sub(m.at).Seconds()
	if phase != m.phase || m.at.IsZero() || done < m.done {
		*m = meter{phase: phase, at: now, done: done}
		return 0
	}
	if seconds <= 0 {
		return int64(m.average)
	}
	last := float64(done-m.done) / seconds
	if m.known {
		last = m.average*2/3 + last/3
	}
	m.at, m.done, m.average, m.known = now, done, last, true
	return int64(m.average)
}
