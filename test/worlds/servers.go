package worlds

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

const (
	// expiry is after what time without a renewal the lease is free; a holder has stopped accepting writes by fence.
	expiry, fence = 15 * time.Second, 10 * time.Second
	// annotationElection is where the agents keep what they know beside the holder.
	annotationElection = "howdah.dev/election"
)

// data is one data generation on a volume, as far as it was written.
type data struct {
	rows   []int
	system string
	major  int
	whole  bool
	clean  bool // the server on it was shut down in order
}

func (d *data) copied() *data {
	c := *d
	c.rows = slices.Clone(d.rows)
	return &c
}

// volume behind a claim.
type volume struct {
	claim string
	data  map[string]*data
	// adoption is the last one that was accepted, of data generation adopted.
	adoption int64
	adopted  string
	// writers may write to it: processes by the UID of their pod.
	writers map[types.UID]string
	// node that it is attached to; empty: none.
	node string
}

// server is the agent and PostgreSQL of one database pod.
type server struct {
	pod, ip string
	uid     types.UID
	node    *node
	volume  *volume
	config  *agentapi.Config

	state      agentapi.State
	message    string
	generation string
	leads      bool
	holds      bool // the lease; one that was alone until now doesn't
	streams    bool
	term       int64
	renewed    time.Time
	clone      int // steps that are left
	switched   *agentapi.SwitchoverStatus
	reinit     *agentapi.ReinitStatus
	stopping   bool
}

func (s *server) data() *data { return s.volume.data[s.generation] }

// electionRecord is what the Lease says beside its holder.
type electionRecord struct {
	Generation string `json:"generation"`
	LastHolder string `json:"lastHolder"`
	Term       int64  `json:"term"`
	// Least rows that whoever takes the lease must have.
	Least int `json:"least"`
}

// servers are all of them, by the UIDs of their pods.
type servers struct {
	world *World
	all   []*server
}

func newServers(w *World) *servers { return &servers{world: w} }

func (p *servers) of(pod string) *server {
	for _, s := range p.all {
		if s.pod == pod {
			return s
		}
	}
	return nil
}

func (p *servers) byUID(uid types.UID) *server {
	for _, s := range p.all {
		if s.uid == uid {
			return s
		}
	}
	return nil
}

// led: a data generation has a primary, to which clients are led.
func (p *servers) led(generation string) bool {
	return slices.ContainsFunc(p.all, func(s *server) bool { return s.leads && s.generation == generation && !s.stopping && !s.node.cut })
}

func (p *servers) step() {
	if len(p.all) > 0 {
		p.tick(p.all[p.world.random.IntN(len(p.all))])
	}
}

func (p *servers) everyone() {
	for _, s := range slices.Clone(p.all) {
		p.tick(s)
	}
}

// beat is what agents do all the time: who holds the lease renews it, or stops accepting writes in time.
func (p *servers) beat() {
	for _, s := range slices.Clone(p.all) {
		if s.leads && s.holds {
			p.tick(s)
		}
	}
}

// tick is a moment in the life of an agent.
func (p *servers) tick(s *server) {
	if s.node.cut {
		s.streams = false
		if s.leads && s.config.Instances > 1 && time.Since(s.renewed) >= fence {
			p.demote(s, "it can't renew the lease")
		}
		return
	}
	config := p.config()
	if config == nil || s.stopping {
		return
	}
	if v := s.volume; config.Adoptions < v.adoption || config.Adoptions == v.adoption && v.adopted != "" && config.DataGeneration != v.adopted {
		s.state, s.message = agentapi.StateFailed, fmt.Sprintf("the volume knows of adoption %d, and the configuration is of %d", v.adoption, config.Adoptions)
		if s.config == nil {
			s.config, s.generation = config, v.adopted
		}
		return
	}
	s.config, s.volume.adoption, s.volume.adopted = config, config.Adoptions, config.DataGeneration
	if s.generation != config.DataGeneration && !s.leads {
		s.generation, s.streams, s.state = config.DataGeneration, false, agentapi.StateStarting
	}
	if config.Instances > 1 {
		p.elect(s)
	} else {
		p.alone(s)
	}
	for _, released := range config.Released {
		if released != s.generation && s.volume.data[released] != nil {
			p.world.say("%s removes data generation %s", s.pod, short(released))
			delete(s.volume.data, released)
		}
	}
	if s.leads {
		p.publish(s)
	}
	p.label(s)
}

// config is what the agents are told.
func (p *servers) config() *agentapi.Config {
	configMap, config := &corev1.ConfigMap{}, &agentapi.Config{}
	if p.world.get(clusterName+"-config", configMap) != nil ||
		json.Unmarshal([]byte(configMap.Data[filepath.Base(agentapi.ConfigFile)]), config) != nil {
		return nil
	}
	return config
}

func (p *servers) alone(s *server) {
	if s.leads {
		return
	}
	if d := s.data(); d == nil || !d.whole {
		s.state, s.message = agentapi.StateFailed, fmt.Sprintf("the volume has no data generation %s", s.generation)
		return
	}
	p.lead(s, s.term+1)
}

// lead has a server be the primary.
func (p *servers) lead(s *server, term int64) {
	s.leads, s.streams, s.term, s.state, s.message, s.renewed = true, false, term, agentapi.StateRunning, "", time.Now()
	s.data().clean = false
	p.world.say("%s is primary on data generation %s with %d rows", s.pod, short(s.generation), len(s.data().rows))
}

func (p *servers) demote(s *server, why string) {
	s.leads, s.holds, s.state = false, false, agentapi.StateStarting
	p.world.say("%s is primary no more: %s", s.pod, why)
}

func (p *servers) lease() (*coordinationv1.Lease, electionRecord) {
	lease, record := &coordinationv1.Lease{}, electionRecord{}
	if p.world.get(p.config().Lease, lease) != nil {
		return nil, record
	}
	_ = json.Unmarshal([]byte(lease.Annotations[annotationElection]), &record)
	return lease, record
}

// hold writes the lease; empty: nobody holds it.
func (p *servers) hold(lease *coordinationv1.Lease, holder string, record electionRecord) {
	text, _ := json.Marshal(record)
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, annotationElection, string(text))
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &holder, &metav1.MicroTime{Time: time.Now()}
	_ = p.world.api.Update(p.world.control.ctx, lease)
}

// elect is what an agent does that isn't alone.
func (p *servers) elect(s *server) {
	lease, record := p.lease()
	if lease == nil {
		return
	}
	holder, d := ptr.Deref(lease.Spec.HolderIdentity, ""), s.data()
	expired := lease.Spec.RenewTime == nil || time.Since(lease.Spec.RenewTime.Time) >= expiry
	whole := d != nil && d.whole
	switch {
	case s.leads && (holder == s.pod || record.Generation != s.generation):
		s.renewed, s.holds = time.Now(), true
		p.hold(lease, s.pod, electionRecord{s.generation, s.pod, s.term, len(d.rows)})
	case s.leads:
		p.demote(s, holder+" holds the lease")
	case record.Generation != s.generation:
		if first := s.config.DataInstance; first == s.pod || first == "" && whole {
			p.take(s, lease, record, whole)
			return
		}
		s.state, s.message = agentapi.StateStarting, "the data begins elsewhere"
	case holder == s.pod, holder == "" && record.LastHolder == s.pod:
		p.take(s, lease, record, whole && len(d.rows) >= record.Least)
	case holder == "":
		s.state, s.message = agentapi.StateStarting, record.LastHolder+" was primary last, and has every commit"
	case !expired:
		p.follow(s, p.of(holder))
	default:
		p.campaign(s, lease, record, holder)
	}
}

// take the lease, if the data is fit.
func (p *servers) take(s *server, lease *coordinationv1.Lease, record electionRecord, fit bool) {
	if !fit {
		s.state, s.message = agentapi.StateFailed, fmt.Sprintf("the volume lacks data generation %s, or commits of it", s.generation)
		return
	}
	p.hold(lease, s.pod, electionRecord{s.generation, s.pod, record.Term + 1, len(s.data().rows)})
	p.lead(s, record.Term+1)
	s.holds = true
}

// campaign after the holder has been silent for too long.
func (p *servers) campaign(s *server, lease *coordinationv1.Lease, record electionRecord, silent string) {
	reachable := 0
	for _, other := range p.all {
		d := other.data()
		if other.node.cut || other.stopping || other.generation != s.generation || d == nil || !d.whole {
			continue
		}
		reachable++
		if mine := s.data(); mine == nil || len(d.rows) > len(mine.rows) {
			s.state, s.message = agentapi.StateStarting, other.pod+" is further ahead"
			return
		}
	}
	wanted := s.config.Synchronous
	if d := s.data(); d == nil || !d.whole || wanted != nil && reachable < s.config.Instances-wanted.Number {
		s.state, s.message = agentapi.StateStarting, "too few instances answer"
		return
	}
	if wanted == nil {
		p.world.rows.giveUpBut(s.generation, s.data().rows, fmt.Sprintf("%s, which had been primary, failed, and replication is asynchronous", silent))
	}
	p.take(s, lease, record, true)
}

// follow the primary: by a clone, a rewind, or what it writes.
func (p *servers) follow(s, primary *server) {
	if primary == nil || !primary.leads || primary.node.cut || primary.generation != s.generation {
		s.streams = false
		return
	}
	d := s.data()
	if d == nil || !d.whole {
		if s.clone == 0 {
			s.clone = 3
			s.volume.data[s.generation] = &data{}
		}
		if s.clone--; s.clone > 0 {
			return
		}
	}
	s.volume.data[s.generation] = primary.data().copied()
	s.state, s.message, s.streams, s.term = agentapi.StateRunning, "", true, primary.term
}

// publish where clients shall go.
func (p *servers) publish(s *server) {
	slice := &discoveryv1.EndpointSlice{}
	if p.world.get(s.config.EndpointSlice, slice) != nil || len(slice.Endpoints) == 1 && slices.Equal(slice.Endpoints[0].Addresses, []string{s.ip}) &&
		slice.Annotations[agentapi.AnnotationDataGeneration] == s.generation {
		return
	}
	slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{s.ip}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}}
	metav1.SetMetaDataAnnotation(&slice.ObjectMeta, agentapi.AnnotationDataGeneration, s.generation)
	_ = p.world.api.Update(p.world.control.ctx, slice)
}

// label a pod with its role.
func (p *servers) label(s *server) {
	role := string(v1alpha1.RoleReplica)
	if s.leads {
		role = string(v1alpha1.RolePrimary)
	}
	pod := &corev1.Pod{}
	if s.state != agentapi.StateRunning || p.world.get(s.pod, pod) != nil || pod.Labels[v1alpha1.LabelRole] == role {
		return
	}
	before := pod.DeepCopy()
	pod.Labels[v1alpha1.LabelRole] = role
	_ = p.world.api.Patch(p.world.control.ctx, pod, client.MergeFrom(before))
}

// stop a server in order: a primary has whoever follows it take over, who then has every row, or is remembered as the last one.
func (p *servers) stop(s *server) {
	if s.leads && s.config.Instances > 1 {
		if lease, record := p.lease(); lease != nil && ptr.Deref(lease.Spec.HolderIdentity, "") == s.pod {
			record.LastHolder, record.Least = s.pod, len(s.data().rows)
			p.hold(lease, p.heir(s), record)
		}
	}
	if s.leads {
		s.data().clean = true
	}
	p.end(s)
}

// heir of a primary that stops; empty: there is none.
func (p *servers) heir(s *server) string {
	for _, other := range p.all {
		if other != s && other.streams && !other.node.cut && !other.stopping && other.generation == s.generation && !p.told(other) {
			other.volume.data[s.generation] = s.data().copied()
			return other.pod
		}
	}
	return ""
}

// told to stop, as Kubernetes knows.
func (p *servers) told(s *server) bool {
	pod := &corev1.Pod{}
	return p.world.get(s.pod, pod) != nil || pod.DeletionTimestamp != nil
}

// end of the process, in order or not.
func (p *servers) end(s *server) {
	delete(s.volume.writers, s.uid)
	p.all = without(p.all, s)
}

// short is a data generation for people.
func short(generation string) string {
	if len(generation) > 12 {
		return "…" + generation[len(generation)-10:]
	}
	return generation
}
