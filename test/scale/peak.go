package main

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// peak knows how many objects of a kind were in some state at the same time, at most.
type peak struct {
	// group of an object that is in the state, such as a node; empty: it isn't in the state.
	group func(client.Object) string

	mu      sync.Mutex
	groups  map[types.UID]string
	counts  map[string]int
	most    int
	inGroup int // the most in one group
}

// countPeak follows the objects of a kind until stop is called.
func (b *bench) countPeak(ctx context.Context, kind client.Object, group func(client.Object) string) (p *peak, stop func(), err error) {
	p = &peak{group: group, groups: map[types.UID]string{}, counts: map[string]int{}}
	informer, err := b.cache.GetInformer(ctx, kind)
	if err != nil {
		return nil, nil, err
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { p.see(object, false) },
		UpdateFunc: func(_, object any) { p.see(object, false) },
		DeleteFunc: func(object any) { p.see(object, true) },
	})
	return p, func() { _ = informer.RemoveEventHandler(registration) }, err
}

func (p *peak) see(seen any, deleted bool) {
	if tombstone, is := seen.(cache.DeletedFinalStateUnknown); is {
		seen = tombstone.Obj
	}
	object, is := seen.(client.Object)
	if !is {
		return
	}
	group := ""
	if !deleted {
		group = p.group(object)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if before, counted := p.groups[object.GetUID()]; counted {
		p.counts[before]--
		delete(p.groups, object.GetUID())
	}
	if group != "" {
		p.groups[object.GetUID()] = group
		p.counts[group]++
	}
	p.most, p.inGroup = max(p.most, len(p.groups)), max(p.inGroup, p.counts[group])
}

// all is the most at a time, and inOne the most in one group.
func (p *peak) read() (all, inOne int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most, p.inGroup
}
