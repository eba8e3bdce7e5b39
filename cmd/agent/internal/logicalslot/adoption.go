package logicalslot

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/agentapi"
)

// Told is what the agent of a primary is told of its data.
type Told struct {
	// Adoption that the data runs under.
	generation.Adoption
	// Slots that are declared, by name.
	Slots []string
}

// ToldBy a configuration, for the data generation that it names.
func ToldBy(config agentapi.Config) Told {
	told := Told{Adoption: generation.Adoption{ClusterUID: config.ClusterUID, Number: config.Adoptions, DataGeneration: config.DataGeneration}}
	for _, slot := range config.ReplicationSlots {
		if !slot.Absent {
			told.Slots = append(told.Slots, slot.Name)
		}
	}
	return told
}

// Resume notes which adoption the data of a primary runs under. Data that had given way to other data, and was brought back by an undo or a
// rollback, is behind: clients may have read from the other data what isn't here, and publishers may have sent it what they don't send again.
// Then declared slots are lost, and SetAside has work to do; subscriptions are disabled, and those that were enabled are returned, as database.subscription.
//
// The record is in the data itself, so an instance that takes over and lacks it comes to the same result. It may be repeated.
func Resume(ctx context.Context, server local.Server, told Told) (disabled []string, err error) {
	err = server.With(ctx, "postgres", func(conn *pgx.Conn) error {
		disabled, err = resume(ctx, conn, told)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("note the adoption of the data: %w", local.Plain(err))
	}
	return disabled, nil
}

// resume is Resume in an open session in database postgres. Nothing is noted of data that nothing was told of.
func resume(ctx context.Context, conn *pgx.Conn, told Told) (disabled []string, err error) {
	if told.DataGeneration == "" {
		return nil, nil
	}
	if err := ensureRecord(ctx, conn); err != nil {
		return nil, err
	}
	if known, err := readAdoption(ctx, conn, told.ClusterUID); err != nil || known == told.Adoption {
		return nil, err
	}
	err = inTransaction(ctx, conn, func(tx pgx.Tx) error {
		known, err := readAdoption(ctx, tx, told.ClusterUID) // another session may have been first
		if err != nil || known == told.Adoption {
			return err
		}
		if cameBack(known, told.Adoption) {
			if disabled, err = goBack(ctx, tx, Back{Subscriptions: true, Slots: told.Slots, why: returned}); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "INSERT INTO "+schema+".aside VALUES ($1, false, pg_catalog.now()) ON CONFLICT DO NOTHING", told.Number); err != nil {
				return err
			}
		}
		return writeAdoption(ctx, tx, told.Adoption)
	})
	return disabled, err
}

// cameBack says whether the cluster has run on other data since: each change to other data counts one, so that to go and to come back are two. A
// person who decides on data that an older status doesn't know adds one as well, and the data continues. Data of another generation was made
// by a Job, which has seen to it, and so was that of another cluster.
func cameBack(known, told generation.Adoption) bool {
	return known.ClusterUID == told.ClusterUID && known.DataGeneration == told.DataGeneration && told.Number > known.Number+1
}

func readAdoption(ctx context.Context, conn querier, cluster string) (generation.Adoption, error) {
	known := generation.Adoption{ClusterUID: cluster}
	err := conn.QueryRow(ctx, "SELECT number, generation FROM "+schema+".adoption WHERE cluster = $1", cluster).Scan(&known.Number, &known.DataGeneration)
	if errors.Is(err, pgx.ErrNoRows) {
		return generation.Adoption{}, nil
	}
	return known, err
}

// writeAdoption replaces those of clusters that this data was copied from as well.
func writeAdoption(ctx context.Context, tx pgx.Tx, told generation.Adoption) error {
	if _, err := tx.Exec(ctx, "DELETE FROM "+schema+".adoption"); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "INSERT INTO "+schema+".adoption VALUES ($1, $2, $3)", told.ClusterUID, told.Number, told.DataGeneration)
	return err
}
