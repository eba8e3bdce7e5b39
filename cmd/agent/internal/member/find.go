package member

import (
	"context"
	"fmt"
	"net"
	"time"
)

const (
	// findDelay is how much later than at its address an agent is looked for elsewhere.
	findDelay = 100 * time.Millisecond
	// placeAge is how long an answer of the API server counts: an agent that is away is called several times a second.
	placeAge = 2 * time.Second
)

// place is what the API server has said of where a pod is.
type place struct {
	address string
	err     error
	at      time.Time
}

// dialer connects to the address that the Lease has. Where nobody is there, it asks the API server for the pod's: after a power
// cut all pods have other addresses, and nobody may be there to write the Lease.
func (h *HTTPS) dialer(pod string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		type dialed struct {
			conn net.Conn
			err  error
		}
		results := make(chan dialed, 2)
		dial := func(to string) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, to)
			results <- dialed{conn, err}
		}
		elsewhere := func() {
			found, err := h.find(ctx, pod)
			if err == nil && found == host {
				err = fmt.Errorf("%s is at %s, and doesn't respond", pod, host)
			}
			if err != nil {
				results <- dialed{nil, err}
				return
			}
			dial(net.JoinHostPort(found, port))
		}
		go dial(address)
		left, delay := 1, time.After(findDelay)
		for {
			select {
			case r := <-results:
				left--
				if r.err == nil {
					go func() { // the other one, if it comes about, is not used
						for range left {
							if late := <-results; late.err == nil {
								late.conn.Close()
							}
						}
					}()
					return r.conn, nil
				}
				if delay == nil && left == 0 {
					return nil, r.err
				}
				if delay != nil {
					delay, left = nil, left+1
					go elsewhere()
				}
			case <-delay:
				delay, left = nil, left+1
				go elsewhere()
			}
		}
	}
}

// find asks the API server for the address of a pod.
func (h *HTTPS) find(ctx context.Context, name string) (string, error) {
	h.mu.Lock()
	known := h.places[name]
	h.mu.Unlock()
	if !known.at.IsZero() && time.Since(known.at) < placeAge {
		return known.address, known.err
	}
	found := struct{ Status struct{ PodIP string } }{}
	err := h.API.Get(ctx, fmt.Sprintf("/api/v1/namespaces/%s/pods/%s", h.Namespace, name), &found)
	if err == nil && found.Status.PodIP == "" {
		err = fmt.Errorf("pod %s has no address", name)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.places == nil {
		h.places = map[string]place{}
	}
	h.places[name] = place{found.Status.PodIP, err, time.Now()}
	return found.Status.PodIP, err
}
