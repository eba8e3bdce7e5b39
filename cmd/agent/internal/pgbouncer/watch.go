package pgbouncer

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"
)

// API is the part of the Kubernetes API that a pooler needs.
type API interface {
	Get(ctx context.Context, path string, into any) error
	Watch(ctx context.Context, folder, name, version string, each func(json.RawMessage) error) error
}

// slice is an EndpointSlice, as far as it matters here.
type slice struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Endpoints []struct {
		Addresses  []string `json:"addresses"`
		Conditions struct {
			Ready *bool `json:"ready"`
		} `json:"conditions"`
		TargetRef *struct {
			Name string `json:"name"`
		} `json:"targetRef"`
	} `json:"endpoints"`
	Ports []struct {
		Port int `json:"port"`
	} `json:"ports"`
}

// primary is the place that a slice leads to; none: it has no endpoint now.
func (s *slice) primary() (place, bool) {
	for _, e := range s.Endpoints {
		if len(e.Addresses) > 0 && e.TargetRef != nil && len(s.Ports) > 0 && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
			return place{Pod: e.TargetRef.Name, Address: e.Addresses[0], Port: s.Ports[0].Port}, true
		}
	}
	return place{}, false
}

const (
	watchAgain = 200 * time.Millisecond
	watchLater = 5 * time.Second
)

// watch sends every place that the EndpointSlice of the primary leads to, until ctx ends. While the API server is away nobody can become the
// primary, so the last place stays right.
func watch(ctx context.Context, api API, namespace, name string, log *slog.Logger, places chan<- place) {
	folder := "/apis/discovery.k8s.io/v1/namespaces/" + namespace + "/endpointslices"
	send := func(s *slice) error {
		if primary, found := s.primary(); found {
			select {
			case places <- primary:
			case <-ctx.Done():
			}
		}
		return ctx.Err()
	}
	pause, complaint := watchAgain, ""
	for ctx.Err() == nil {
		s := &slice{}
		err := api.Get(ctx, folder+"/"+name, s)
		if err == nil {
			pause, complaint = watchAgain, ""
			if err = send(s); err == nil {
				err = api.Watch(ctx, folder, name, s.Metadata.ResourceVersion, func(object json.RawMessage) error {
					next := &slice{}
					if err := json.Unmarshal(object, next); err != nil {
						return err
					}
					return send(next)
				})
			}
		}
		if err != nil && ctx.Err() == nil && err.Error() != complaint {
			complaint = err.Error()
			log.Warn("the EndpointSlice of the primary can't be watched; trying again", "slice", name, "error", err)
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, watchLater)
		case <-ctx.Done():
		}
	}
}
