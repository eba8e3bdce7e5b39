package config

import (
	"cmp"
	"strconv"
	"strings"

	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

// declared are the roles and databases that the agent of the primary is to keep; nil: none.
func declared(cluster *v1alpha1.PostgresCluster) *agentapi.Declared {
	if len(cluster.Spec.Roles) == 0 && len(cluster.Spec.Databases) == 0 {
		return nil
	}
	out := &agentapi.Declared{}
	for i := range cluster.Spec.Roles {
		out.Roles = append(out.Roles, role(&cluster.Spec.Roles[i]))
	}
	for _, wanted := range cluster.Spec.Databases {
		out.Databases = append(out.Databases, database(wanted))
	}
	return out
}

func database(wanted v1alpha1.Database) agentapi.Database {
	out := agentapi.Database{
		Name: wanted.Name, Absent: wanted.Ensure == v1alpha1.Absent, Owner: wanted.Owner, Encoding: wanted.Encoding,
		LocaleProvider: strings.ToLower(string(wanted.LocaleProvider)), Locale: wanted.Locale, Template: wanted.Template,
	}
	if limit := wanted.ConnectionLimit; limit != nil {
		out.ConnectionLimit = ptr.To(int(*limit))
	}
	for _, e := range wanted.Extensions {
		out.Extensions = append(out.Extensions, agentapi.Extension{Name: e.Name, Schema: e.Schema, Version: e.Version})
	}
	for _, s := range wanted.Schemas {
		schema := agentapi.Schema{Name: s.Name, Owner: s.Owner}
		for _, g := range s.Grants {
			schema.Grants = append(schema.Grants, agentapi.SchemaGrant{Role: g.Role, Write: g.Access == v1alpha1.AccessWrite})
		}
		out.Schemas = append(out.Schemas, schema)
	}
	for _, p := range wanted.Publications {
		out.Publications = append(out.Publications, agentapi.Publication{
			Name: p.Name, Absent: p.Ensure == v1alpha1.Absent, AllTables: p.AllTables, Tables: p.Tables, Schemas: p.Schemas,
		})
	}
	for i := range wanted.Subscriptions {
		out.Subscriptions = append(out.Subscriptions, subscription(&wanted.Subscriptions[i]))
	}
	return out
}

// subscription as the agent keeps it. The password comes by another way.
func subscription(wanted *v1alpha1.Subscription) agentapi.Subscription {
	if wanted.Ensure == v1alpha1.Absent {
		return agentapi.Subscription{Name: wanted.Name, Absent: true}
	}
	out := agentapi.Subscription{
		Name: wanted.Name, Disabled: !yes(wanted.Enabled), Publications: wanted.Publications, Owner: wanted.Owner,
		Slot: wanted.SlotName, NoCopy: !yes(wanted.CopyData), Failover: wanted.Failover,
	}
	p := wanted.Publisher
	for _, option := range []agentapi.ConnectionOption{
		{Keyword: "host", Value: p.Host}, {Keyword: "port", Value: strconv.Itoa(int(p.Port))}, {Keyword: "dbname", Value: p.Database},
		{Keyword: "user", Value: p.User}, {Keyword: "sslmode", Value: string(p.SSLMode)}, {Keyword: "sslrootcert", Value: p.SSLRootCert},
	} {
		if option.Value != "" {
			out.Publisher = append(out.Publisher, option)
		}
	}
	return out
}

func role(wanted *v1alpha1.Role) agentapi.Role {
	if wanted.Ensure == v1alpha1.Absent {
		return agentapi.Role{Name: wanted.Name, Absent: true}
	}
	out := agentapi.Role{
		Name: wanted.Name, Login: yes(wanted.Login), CreateDB: wanted.CreateDB, CreateRole: wanted.CreateRole, Inherit: yes(wanted.Inherit),
		ConnectionLimit: -1, InRoles: wanted.InRoles, Password: wanted.PasswordSecret != nil,
		Replication: wanted.Replication, BypassRLS: wanted.BypassRLS,
	}
	for name, value := range wanted.Parameters {
		if out.Parameters == nil {
			out.Parameters = map[string]string{}
		}
		out.Parameters[string(name)] = string(value)
	}
	if wanted.ConnectionLimit != nil {
		out.ConnectionLimit = int(*wanted.ConnectionLimit)
	}
	if wanted.ValidUntil != nil {
		out.ValidUntil = wanted.ValidUntil.UTC()
	}
	return out
}

func replicationSlots(cluster *v1alpha1.PostgresCluster, application string) []agentapi.ReplicationSlot {
	var slots []agentapi.ReplicationSlot
	for _, wanted := range cluster.Spec.ReplicationSlots {
		slot := agentapi.ReplicationSlot{Name: wanted.Name, Absent: wanted.Ensure == v1alpha1.Absent}
		if !slot.Absent {
			slot.Database, slot.Plugin, slot.Failover = cmp.Or(wanted.Database, application), wanted.Plugin, yes(wanted.Failover)
		}
		if wanted.MaxRetainedWAL != nil {
			slot.MaxRetainedBytes = wanted.MaxRetainedWAL.Value()
		}
		slots = append(slots, slot)
	}
	return slots
}

// yes unless it says no.
func yes(value *bool) bool { return value == nil || *value }

func ident(cluster *v1alpha1.PostgresCluster) []string {
	var lines []string
	for _, line := range cluster.Spec.PostgreSQL.Ident {
		lines = append(lines, string(line))
	}
	return lines
}

func rules(cluster *v1alpha1.PostgresCluster) []string {
	var rules []string
	for _, rule := range cluster.Spec.PostgreSQL.HBA {
		rules = append(rules, string(rule))
	}
	return rules
}
