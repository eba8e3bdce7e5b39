package settings

import (
	"slices"
	"strconv"

	"howdah.dev/howdah/pkg/postgres"
)

// Least is what a replica has to have at least of some parameters to start: as much as its primary. The zero value asks for nothing.
type Least struct{ connections, workers, walSenders, preparedTransactions, locks int }

// LeastOf is what a copy's control file asks for: what its primary had when the last of its WAL here was written.
func LeastOf(control postgres.ControlData) Least {
	return Least{
		connections: control.MaxConnections, workers: control.MaxWorkerProcesses, walSenders: control.MaxWALSenders,
		preparedTransactions: control.MaxPreparedXacts, locks: control.MaxLocksPerXact,
	}
}

// floor of a parameter, and what a server has that was told nothing.
type floor struct{ least, standard int }

func (l Least) floors() map[string]floor {
	return map[string]floor{
		"max_connections":           {l.connections, 100},
		"max_worker_processes":      {l.workers, 8},
		"max_wal_senders":           {l.walSenders, 10},
		"max_prepared_transactions": {l.preparedTransactions, 0},
		"max_locks_per_transaction": {l.locks, 64},
	}
}

// Beyond are the parameters of which a running server has too little, in the order of their names.
func (l Least) Beyond(has map[string]int) []string {
	var names []string
	for name, value := range l.floors() {
		if has[name] < value.least {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// raise returns the parameters with no less than that.
func (l Least) raise(all []postgres.Parameter) []postgres.Parameter {
	raised := map[string]string{}
	for name, value := range l.floors() {
		has := value.standard
		for _, p := range all {
			if p.Name != name {
				continue
			}
			number, err := strconv.ParseInt(p.Value, 0, 32)
			if err != nil {
				number = int64(value.least) // it is PostgreSQL's to judge
			}
			has = int(number)
		}
		if has < value.least {
			raised[name] = strconv.Itoa(value.least)
		}
	}
	return postgres.MergeParameters(all, postgres.ParameterList(raised))
}
