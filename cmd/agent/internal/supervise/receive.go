package supervise

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// receive takes in new inputs and says whether they are to be acted on.
func (r *runner) receive(ctx context.Context, in inputs) bool {
	if in.err != nil {
		r.Log.Warn("the new configuration is not valid and is ignored", "error", in.err)
		r.set(func(status *agentapi.Status) { status.ConfigError, status.ConfigErrorHash = in.err.Error(), "" })
		return false
	}
	before := r.inputs
	if in.config.DataGeneration != before.config.DataGeneration {
		r.Log.Warn("another data generation is requested; it is adopted at the next start of the pod", "generation", in.config.DataGeneration)
		return false
	}
	r.unaccepted, r.again = in, retry{}
	if err := r.accept(ctx, in.config); err != nil {
		r.again.after(err, time.Now())
		r.Log.Error("new configuration is refused; the previous one stays in effect", "error", err)
		r.set(func(status *agentapi.Status) {
			status.ConfigError, status.ConfigErrorHash = sentence(err), in.config.Hash()
		})
		return false
	}
	r.inputs = in
	r.latest.set(in)
	r.election.Configure(electorate(in.config), in.config.Lease)
	r.watchOver()
	if r.adopted == nil {
		return true
	}
	if in.tls != before.tls {
		r.renewTLS()
	}
	if in.ldap != before.ldap || in.config.LDAPPassword != before.config.LDAPPassword {
		r.writeLDAPPassword()
	}
	if !sameArchive(in.config, before.config) {
		r.archiving.aim(in.config)
	}
	if in.password != before.password || in.super != before.super || in.config.Database != before.config.Database || in.config.Owner != before.config.Owner ||
		in.config.FailoverDrill != before.config.FailoverDrill {
		wake(r.wakeups.credentials)
	}
	if in.config.Declared.Hash() != before.config.Declared.Hash() || !maps.Equal(in.declared, before.declared) {
		wake(r.wakeups.declarations)
	}
	if agentapi.SlotsHash(in.config.ReplicationSlots) != agentapi.SlotsHash(before.config.ReplicationSlots) {
		wake(r.wakeups.slots)
	}
	return true
}

// receiveAgain takes in a configuration that could not be accepted, and says whether it is to be acted on.
func (r *runner) receiveAgain(ctx context.Context) bool {
	return r.again.due(time.Now()) && r.receive(ctx, r.unaccepted)
}

// renew makes the running server follow new inputs.
func (r *runner) renew(ctx context.Context, s *server, in inputs) {
	certificates, ldap := r.inputs.tls, r.inputs.ldap
	if !r.receive(ctx, in) {
		return
	}
	if in.tls != certificates || in.ldap != ldap {
		r.reload(s)
	}
	r.conf.apply(ctx, s.postmaster, r.inputs.config)
}

func (r *runner) reload(s *server) {
	if err := s.postmaster.Reload(); err != nil {
		r.Log.Error("PostgreSQL can't be told of its new certificate, or of its new password for LDAP", "error", err)
	}
}

// renewTLS puts new certificates where PostgreSQL reads them. What failed is tried again by retryTLS.
func (r *runner) renewTLS() {
	before := r.uncopied
	told, err := copyCertificates(r.Paths, r.adopted.paths, time.Now())
	if r.uncopied = ""; err != nil {
		r.uncopied = fmt.Sprintf("The new certificates can't be put where PostgreSQL reads them, and the previous ones stay: %v.", err)
		if r.uncopied != before {
			r.Log.Error("the new certificates are not used", "error", err)
		}
		r.set(func(status *agentapi.Status) {
			known := agentapi.ServerTLSStatus{}
			if status.ServerTLS != nil {
				known = *status.ServerTLS
			}
			known.Problem = r.uncopied
			status.ServerTLS = &known
		})
		return
	}
	if told.Problem != "" {
		r.Log.Error("the server does not present the certificate of spec.tls.serverSecret", "problem", told.Problem)
	}
	r.set(func(status *agentapi.Status) { status.ServerTLS = told })
	r.Log.Info("the server's certificates have changed")
}

// retryTLS tries again what failed, and says whether it has succeeded.
func (r *runner) retryTLS() bool {
	if r.uncopied == "" || r.adopted == nil {
		return false
	}
	r.renewTLS()
	return r.uncopied == ""
}

// writeLDAPPassword puts the password of spec.postgresql.ldapPasswordSecret where pg_hba.conf names it. There is always a file, as PostgreSQL
// refuses rules that name none.
func (r *runner) writeLDAPPassword() {
	content, err := postgres.RenderLDAPPassword(r.inputs.ldap)
	if err := errors.Join(err, writeFile(r.adopted.paths.LDAPFile, []byte(content))); err != nil {
		r.Log.Error("rules of pg_hba.conf have no new password for LDAP", "error", err)
	}
}

// down notes that the server ended, or did not start, though nobody asked for it.
func (r *runner) down(err error) {
	state := agentapi.StateStopped
	if r.crashes.failures > 1 {
		state = agentapi.StateFailed
	}
	before := r.Status().Message
	r.set(func(status *agentapi.Status) { status.State, status.Role, status.Message = state, "", sentence(err) })
	if sentence(err) != before {
		r.Log.Error("PostgreSQL is down", "failures", r.crashes.failures, "error", err)
	}
}

// backOff waits before the next start, longer with each failure, or until there is something new to start with. It says
// false when ctx has ended.
func (r *runner) backOff(ctx context.Context) bool {
	pause := r.crashes.backOff()
	if pause == 0 {
		return ctx.Err() == nil
	}
	timer := time.After(pause)
	tick := time.NewTicker(loopTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer:
			return true
		case <-r.election.Changed():
			return true
		case in := <-r.newest:
			r.beat()
			if r.receive(ctx, in) {
				return true
			}
		case <-tick.C:
			r.beat()
			if r.receiveAgain(ctx) {
				return true
			}
		}
	}
}

func writeFile(path string, content []byte) error { return generation.WriteFile(path, content, 0o600) }
