package objstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

// Ability is something that a repository must be able to do in its store.
type Ability string

// What Probe tries, in this order.
const (
	CanWrite            Ability = "Write"
	CanRead             Ability = "Read"
	CanWriteConditional Ability = "ConditionalWrite"
	CanList             Ability = "List"
	CanDelete           Ability = "Delete"
)

// Finding is one thing that a store can't do, with a sentence for a person.
type Finding struct {
	Ability Ability
	Message string
	Err     error // nil if the store did something else than it was asked for
}

// Probe tries in the store what a repository needs, under keys that start with "probe/" and the
// given token (random, chosen by the caller, so that several probes don't meet). It returns what
// can't be done, in the order of trying; none means that all is well. It also returns when the server
// received an object, by the server's clock; zero if it didn't say. It removes what it wrote as far as it
// may. When nothing can be written it stops there, because the rest would fail alike.
func Probe(ctx context.Context, store Store, token string) (findings []Finding, received time.Time) {
	p := &probe{store: store, plain: "probe/" + token + "/plain", once: "probe/" + token + "/once", body: []byte("howdah " + token)}
	if finding := p.write(ctx); finding != nil {
		return []Finding{*finding}, received
	}
	for _, try := range []func(context.Context) *Finding{p.read, p.writeConditional, p.list, p.delete} {
		if finding := try(ctx); finding != nil {
			findings = append(findings, *finding)
		}
	}
	return findings, p.received
}

type probe struct {
	store       Store
	plain, once string // keys
	body        []byte
	received    time.Time
}

func failed(ability Ability, err error) *Finding {
	return &Finding{Ability: ability, Message: Explain(err), Err: err}
}

func wrong(ability Ability, message string) *Finding {
	return &Finding{Ability: ability, Message: message}
}

func (p *probe) write(ctx context.Context) *Finding {
	if err := p.store.Put(ctx, p.plain, p.body, PutOptions{}); err != nil {
		return failed(CanWrite, err)
	}
	return nil
}

func (p *probe) read(ctx context.Context) *Finding {
	got, err := p.store.Get(ctx, p.plain, 1<<20)
	if err != nil {
		return failed(CanRead, err)
	}
	part := make([]byte, 4)
	if _, err := p.store.ReadAt(ctx, p.plain, part, 2); err != nil {
		return failed(CanRead, err)
	}
	if !bytes.Equal(got, p.body) || !bytes.Equal(part, p.body[2:6]) {
		return wrong(CanRead, "The store returns other bytes than were written a moment before.")
	}
	return nil
}

func (p *probe) writeConditional(ctx context.Context) *Finding {
	// A retried put may meet its own earlier attempt, which is fine here.
	if err := p.store.Put(ctx, p.once, p.body, PutOptions{IfAbsent: true}); err != nil && !errors.Is(err, ErrExists) {
		return failed(CanWriteConditional, err)
	}
	err := p.store.Put(ctx, p.once, []byte("second writer"), PutOptions{IfAbsent: true})
	switch {
	case errors.Is(err, ErrExists):
		return nil
	case err != nil:
		return failed(CanWriteConditional, err)
	}
	return wrong(CanWriteConditional, "The server does not honour If-None-Match: it let a second writer replace an object. "+
		"Two clusters could mix up one archive there; use a server or a version that supports conditional writes.")
}

func (p *probe) list(ctx context.Context) *Finding {
	seen := map[string]bool{}
	for info, err := range p.store.List(ctx, p.plain[:len(p.plain)-len("plain")], "") {
		if err != nil {
			return failed(CanList, err)
		}
		seen[info.Key] = true
		if info.Key == p.plain {
			p.received = info.Modified
		}
	}
	if !seen[p.plain] {
		return wrong(CanList, fmt.Sprintf("The server does not list an object (%s) that was written a moment before.", p.plain))
	}
	return nil
}

func (p *probe) delete(ctx context.Context) *Finding {
	if err := p.store.Delete(ctx, p.plain, p.once); err != nil {
		return failed(CanDelete, err)
	}
	if _, err := p.store.Stat(ctx, p.plain); err == nil {
		return wrong(CanDelete, "The server still has an object after it was deleted.")
	}
	return nil
}
