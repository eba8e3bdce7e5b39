// Package endpoint keeps the address of the primary in the EndpointSlice behind the cluster's -rw Service. A former primary can't
// write over a later one, however late its write arrives: each is based on the version that the slice had while the writer had the
// lease, and the API server refuses it once anybody has written after that.
package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/kube"
	"howdah.dev/howdah/pkg/agentapi"
)

const (
	manager   = "howdah-agent"
	retryTime = 2 * time.Second
	tries     = 3 // of a write that others come before
	lookSoon  = 2 * time.Second
	// vacateTime is between two attempts to take a former primary out.
	vacateTime = 100 * time.Millisecond
	lookAgain  = 5 * time.Minute // whether what was written is still there
)

// Pod is what the slice says about this pod.
type Pod struct {
	Namespace, Name, UID, Node, IP string
	// DataGeneration that PostgreSQL runs on.
	DataGeneration string
}

// API is the part of the Kubernetes API that a publisher needs.
type API interface {
	Get(ctx context.Context, path string, into any) error
	Apply(ctx context.Context, path, manager string, object any) error
}

// errNoLease says that another instance may be the primary by now.
var errNoLease = errors.New("this instance doesn't have the lease")

// Publisher writes the slice.
type Publisher struct {
	Pod   Pod
	Slice string
	Port  int
	API   API
	// Leads says whether this instance is the only one that may be the primary at this moment.
	Leads func() bool
	Log   *slog.Logger

	mu        sync.Mutex
	wanted    bool
	written   *bool // what the slice says, nil if unknown
	coming    bool  // this pod is being put into the slice
	reign     int   // counts the times that it was left to another primary
	led       bool  // clients were led here, and nobody has asked since
	wake      chan struct{}
	announced chan struct{} // closed and replaced at the end of each write
}

// New makes a publisher that writes through client.
func New(client API, pod Pod, slice string, port int, leads func() bool, log *slog.Logger) *Publisher {
	return &Publisher{
		Pod: pod, Slice: slice, Port: port, API: client, Leads: leads, Log: log,
		wake: make(chan struct{}, 1), announced: make(chan struct{}),
	}
}

// Set says whether clients may come here. It doesn't wait; a nil publisher has nobody to tell.
func (p *Publisher) Set(ready bool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.wanted = ready
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Yield leaves the slice to another primary: what it says of this pod is not written again, and not taken back.
func (p *Publisher) Yield() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted, p.written = false, nil
	p.reign++
}

// Withdraw says that no client may come here any more, and waits until that is written or ctx ends. Where the slice was
// never written by this process, nor is about to be, there is nothing to withdraw.
func (p *Publisher) Withdraw(ctx context.Context) {
	if p == nil {
		return
	}
	p.Set(false)
	for {
		p.mu.Lock()
		done, announced := !p.coming && (p.written == nil || !*p.written), p.announced
		p.mu.Unlock()
		if done {
			return
		}
		select {
		case <-announced:
		case <-ctx.Done():
			p.Log.Warn("the pod could not be taken out of its EndpointSlice", "error", ctx.Err())
			return
		}
	}
}

// Vacate takes this pod, which is no primary any more, out of the slice if it is still in it, and waits until that is done or ctx ends.
// A client that connects to it as a replica would stay, and could not write. It says whether some may still come: the slice led here,
// and each node learns a little later that it doesn't.
func (p *Publisher) Vacate(ctx context.Context) (stragglers bool) {
	if p == nil {
		return false
	}
	if err := p.insist(ctx, ""); err != nil {
		p.Log.Warn("clients may still be routed to this pod, which is no longer the primary", "slice", p.Slice, "error", err)
		return true
	}
	return p.hasLed()
}

// Ended says how the server has ended that clients were led to, unless another one has taken its place, and waits until that is written or ctx ends.
func (p *Publisher) Ended(ctx context.Context, how agentapi.Shutdown) {
	if p == nil {
		return
	}
	p.Yield()
	said, err := json.Marshal(how)
	if err == nil {
		err = p.insist(ctx, string(said))
	}
	if err != nil {
		p.Log.Warn("how PostgreSQL ended can't be reported", "slice", p.Slice, "error", err)
	}
}

// insist takes this pod out of the slice, with how its server has ended if that is known, again and again until ctx ends.
func (p *Publisher) insist(ctx context.Context, shutdown string) error {
	for {
		err := p.put(ctx, false, shutdown)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(vacateTime):
		case <-ctx.Done():
			return err
		}
	}
}

// hasLed says whether clients were led here since it was called last.
func (p *Publisher) hasLed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	led := p.led
	p.led = false
	return led
}

// noteLed notes that the slice leads here, or did.
func (p *Publisher) noteLed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.led = true
}

// Run writes until ctx ends, again and again while the API server refuses: the slice may not be there yet.
func (p *Publisher) Run(ctx context.Context) {
	if p == nil {
		return
	}
	wait, complaint := time.Duration(0), ""
	for {
		var timer <-chan time.Time
		if wait > 0 {
			timer = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-timer:
			if complaint == "" && p.stands(ctx) {
				wait = min(5*wait, lookAgain)
				continue
			}
		}
		err := p.write(ctx)
		switch {
		case err == nil:
			wait, complaint = lookSoon, "" // a former primary may have written last
		case ctx.Err() == nil:
			wait = retryTime
			if err.Error() != complaint {
				complaint = err.Error()
				p.Log.Warn("the EndpointSlice can't be written; trying again", "slice", p.Slice, "error", err)
			}
		}
	}
}

func (p *Publisher) write(ctx context.Context) error {
	p.mu.Lock()
	ready, before, reign := p.wanted, p.written, p.reign
	if !ready && before == nil {
		p.mu.Unlock()
		return nil // another pod may be in it: only who has put itself there takes itself out
	}
	p.coming = ready
	p.mu.Unlock()
	err := p.put(ctx, ready, "")
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.announce()
	if err != nil || p.reign != reign { // it was left to somebody else meanwhile
		return err
	}
	if before == nil || *before != ready {
		p.Log.Info("wrote the EndpointSlice of the primary", "slice", p.Slice, "ready", ready)
	}
	p.written = &ready
	return nil
}

// put writes the slice, again where somebody else has written in between.
func (p *Publisher) put(ctx context.Context, ready bool, shutdown string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for range tries {
		if err = p.putOnce(ctx, ready, shutdown); !kube.IsConflict(err) {
			return err
		}
	}
	return err
}

// putOnce writes the slice if it is still what it was at a moment at which this instance had the lease. So a write that arrives after
// that of a later primary is refused, whatever either knows of the other: the terms of a Lease may begin again after it was deleted.
func (p *Publisher) putOnce(ctx context.Context, ready bool, shutdown string) error {
	var found slice
	if err := p.API.Get(ctx, p.path(), &found); err != nil {
		return err
	}
	switch {
	case ready && !p.Leads(): // asked after the slice was read
		return errNoLease
	case !ready && !found.leadsTo(p.Pod) && (shutdown == "" || found.leads()):
		return nil // another pod has taken its place
	}
	p.noteLed()
	body := p.body(ready)
	if shutdown != "" { // what is not said again is gone
		body.Metadata.Annotations[agentapi.AnnotationShutdown] = shutdown
	}
	if !ready && !found.leadsTo(p.Pod) { // no client was led here
		body.Metadata.Annotations[agentapi.AnnotationDataGeneration] = found.Metadata.Annotations[agentapi.AnnotationDataGeneration]
	}
	body.Metadata.ResourceVersion = found.Metadata.ResourceVersion
	return p.API.Apply(ctx, p.path(), manager, body)
}

// leads says whether the slice leads clients to anybody. A primary that is stopped right after it took over has yet to put itself there.
func (s *slice) leads() bool {
	return slices.ContainsFunc(s.Endpoints, func(e endpoint) bool { return e.Conditions.Ready })
}

// leadsTo says whether the slice names a pod.
func (s *slice) leadsTo(pod Pod) bool {
	return slices.ContainsFunc(s.Endpoints, func(e endpoint) bool { return e.TargetRef.UID == pod.UID })
}

// announce tells those who wait that a write has ended. The lock is held.
func (p *Publisher) announce() {
	p.coming = false
	close(p.announced)
	p.announced = make(chan struct{})
}

func (p *Publisher) path() string {
	return "/apis/discovery.k8s.io/v1/namespaces/" + p.Pod.Namespace + "/endpointslices/" + p.Slice
}

// stands says whether the slice still says what was written: somebody may have made it anew. If that can't be found out
// it is taken for true.
func (p *Publisher) stands(ctx context.Context) bool {
	p.mu.Lock()
	ready, written := p.wanted, p.written
	p.mu.Unlock()
	if written == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var found slice
	if err := p.API.Get(ctx, p.path(), &found); err != nil {
		return !kube.IsNotFound(err)
	}
	wanted := p.body(ready)
	return reflect.DeepEqual(found.Endpoints, wanted.Endpoints) && reflect.DeepEqual(found.Ports, wanted.Ports)
}

type slice struct {
	APIVersion  string     `json:"apiVersion"`
	Kind        string     `json:"kind"`
	Metadata    metadata   `json:"metadata"`
	AddressType string     `json:"addressType"`
	Endpoints   []endpoint `json:"endpoints"`
	Ports       []port     `json:"ports"`
}

type metadata struct {
	Name string `json:"name"`
	// ResourceVersion is the precondition of a write.
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Annotations     map[string]string `json:"annotations,omitempty"`
}

type endpoint struct {
	Addresses  []string   `json:"addresses"`
	Conditions conditions `json:"conditions"`
	TargetRef  targetRef  `json:"targetRef"`
	NodeName   string     `json:"nodeName,omitempty"`
}

type conditions struct {
	Ready   bool `json:"ready"`
	Serving bool `json:"serving"`
}

type targetRef struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

type port struct {
	Name     string `json:"name"`
	Protocol string `json:"protocol"`
	Port     int    `json:"port"`
}

func (p *Publisher) body(ready bool) slice {
	return slice{
		APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice",
		// It stays when the pod is taken out of the slice, and when the pod is gone: this data has served clients.
		Metadata:    metadata{Name: p.Slice, Annotations: map[string]string{agentapi.AnnotationDataGeneration: p.Pod.DataGeneration}},
		AddressType: addressType(p.Pod.IP),
		Endpoints: []endpoint{{
			Addresses: []string{p.Pod.IP}, Conditions: conditions{Ready: ready, Serving: ready},
			TargetRef: targetRef{Kind: "Pod", Namespace: p.Pod.Namespace, Name: p.Pod.Name, UID: p.Pod.UID},
			NodeName:  p.Pod.Node,
		}},
		Ports: []port{{Name: "postgres", Protocol: "TCP", Port: p.Port}},
	}
}

func addressType(ip string) string {
	if address, err := netip.ParseAddr(ip); err == nil && address.Is6() {
		return "IPv6"
	}
	return "IPv4"
}
