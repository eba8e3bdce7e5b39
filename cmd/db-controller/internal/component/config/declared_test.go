package config

import (
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

func TestAgentsAreToldWhatIsDeclaredAndNoPassword(t *testing.T) {
	cluster := shop()
	before := Agent(cluster, 1, nil).Hash()
	until := metav1.NewTime(time.Date(2031, 2, 3, 4, 5, 6, 0, time.FixedZone("CET", 3600)))
	cluster.Spec.Roles = []v1alpha1.Role{
		{Name: "reporting", Login: ptr.To(false), CreateDB: true, ConnectionLimit: ptr.To[int32](0), ValidUntil: &until, InRoles: []string{"pg_monitor"}},
		{Name: "web", PasswordSecret: &v1alpha1.PasswordSecret{Name: "web"}},
		{Name: "old", Ensure: v1alpha1.Absent},
		{Name: "cdc", Replication: ptr.To(true), Parameters: map[v1alpha1.RoleParameter]v1alpha1.ParameterValue{"work_mem": "1MB"}},
	}
	cluster.Spec.Databases = []v1alpha1.Database{
		{Name: "orders", Owner: "web", Extensions: []v1alpha1.Extension{{Name: "hstore", Schema: "tools", Version: "1.8"}}},
		{Name: "gone", Ensure: v1alpha1.Absent},
		{Name: "new", LocaleProvider: v1alpha1.LocaleICU, Locale: "de", ConnectionLimit: ptr.To[int32](3),
			Schemas:      []v1alpha1.DatabaseSchema{{Name: "s", Grants: []v1alpha1.SchemaGrant{{Role: "web", Access: v1alpha1.AccessWrite}, {Role: "reporting", Access: v1alpha1.AccessRead}}}},
			Publications: []v1alpha1.Publication{{Name: "p", Ensure: v1alpha1.Absent}, {Name: "q", Tables: []string{"public.t"}}}},
	}
	cluster.Spec.ReplicationSlots = []v1alpha1.ReplicationSlot{{Name: "cdc", Plugin: "pgoutput"}, {Name: "gone", Plugin: "pgoutput", Ensure: v1alpha1.Absent}}
	cluster.Spec.PostgreSQL.HBA = []v1alpha1.HBARule{"hostssl all all all reject"}
	cluster.Spec.PostgreSQL.Ident = []v1alpha1.IdentLine{"staff alice reporting"}
	cluster.Spec.PostgreSQL.LDAPPasswordSecret = &v1alpha1.PasswordSecret{Name: "directory"}
	config := Agent(cluster, 1, nil)
	if config.Hash() == before {
		t.Error("what is declared is not in the hash")
	}
	raw, err := json.Marshal(config)
	read := agentapi.Config{}
	if err != nil || json.Unmarshal(raw, &read) != nil || read.Hash() != config.Hash() || read.Declared.Hash() != config.Declared.Hash() {
		t.Error("the agent would compute another hash than the controller waits for")
	}
	reporting, web, old := read.Declared.Roles[0], read.Declared.Roles[1], read.Declared.Roles[2]
	if reporting.Login || !reporting.Inherit || !reporting.CreateDB || reporting.ConnectionLimit != 0 || !reporting.ValidUntil.Equal(until.Time) || reporting.Password {
		t.Errorf("got %+v", reporting)
	}
	if !web.Login || !web.Inherit || web.ConnectionLimit != -1 || !web.Password || web.CreateRole {
		t.Errorf("got %+v", web)
	}
	if !old.Absent || !read.Declared.Databases[1].Absent || read.Declared.Databases[0].Extensions[0] != (agentapi.Extension{Name: "hstore", Schema: "tools", Version: "1.8"}) {
		t.Errorf("got %+v", read.Declared)
	}
	cdc, created := read.Declared.Roles[3], read.Declared.Databases[2]
	if cdc.Replication == nil || !*cdc.Replication || cdc.BypassRLS != nil || cdc.Parameters["work_mem"] != "1MB" {
		t.Errorf("got %+v", cdc)
	}
	if grants := created.Schemas[0].Grants; created.LocaleProvider != "icu" || *created.ConnectionLimit != 3 || !grants[0].Write || grants[1].Write ||
		!created.Publications[0].Absent || created.Publications[1].Tables[0] != "public.t" {
		t.Errorf("got %+v", created)
	}
	if slots := read.ReplicationSlots; slots[0] != (agentapi.ReplicationSlot{Name: "cdc", Database: "app", Plugin: "pgoutput", Failover: true}) ||
		slots[1] != (agentapi.ReplicationSlot{Name: "gone", Absent: true}) {
		t.Errorf("got %+v", slots)
	}
	if len(read.HBA) != 1 || read.HBA[0] != "hostssl all all all reject" || len(read.Ident) != 1 || !read.LDAPPassword {
		t.Errorf("got %q, %q, %v", read.HBA, read.Ident, read.LDAPPassword)
	}
}
