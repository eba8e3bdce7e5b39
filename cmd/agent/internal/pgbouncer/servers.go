package pgbouncer

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
)

// server is a connection of PgBouncer to a server, as its console shows it.
type server struct{ address, port, link string }

func (s server) String() string { return net.JoinHostPort(s.address, s.port) }

// isAt says whether it leads to a place. An address may be written in more than one way.
func (s server) isAt(to place) bool {
	if s.port != strconv.Itoa(to.Port) {
		return false
	}
	a, errA := netip.ParseAddr(s.address)
	b, errB := netip.ParseAddr(to.Address)
	if errA != nil || errB != nil {
		return s.address == to.Address
	}
	return a.Unmap() == b.Unmap()
}

func (s server) isOneOf(places []place) bool {
	for _, to := range places {
		if s.isAt(to) {
			return true
		}
	}
	return false
}

// busy are the connections on which clients have a transaction, besides those for looking passwords up.
func (b *bouncer) busy(ctx context.Context) (all []server, err error) {
	rows, err := b.rows(ctx, "SHOW SERVERS")
	for _, row := range rows {
		if row["link"] != "" && row["database"] != lookupDatabase {
			all = append(all, server{row["addr"], row["port"], row["link"]})
		}
	}
	return all, err
}

// endOthers ends each client that is in a transaction on another server than this one. That server is no primary any more, so
// nothing comes of it; one that is frozen or cut off would never say so.
func (b *bouncer) endOthers(ctx context.Context, primary place) error {
	return b.endClients(ctx, func(s server) bool { return !s.isAt(primary) }, "a transaction on the former primary is ended")
}

// endClients ends each client that is in a transaction on one of these servers, and logs that.
func (b *bouncer) endClients(ctx context.Context, on func(server) bool, message string) error {
	busy, err := b.busy(ctx)
	if err != nil {
		return err
	}
	links := map[string]bool{}
	for _, s := range busy {
		if on(s) {
			links[s.link] = true
		}
	}
	if len(links) == 0 {
		return nil
	}
	clients, err := b.rows(ctx, "SHOW CLIENTS")
	if err != nil {
		return err
	}
	for _, c := range clients {
		if links[c["ptr"]] {
			b.log.Warn(message, "user", c["user"], "database", c["database"])
			err = errors.Join(err, b.do(ctx, "KILL_CLIENT "+c["id"]))
		}
	}
	return err
}
