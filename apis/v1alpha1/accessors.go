package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The accessors let code that works on every kind read and write what all of them have: conditions in a status.

// GetConditions are the conditions of the status.
func (c *PostgresCluster) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions of the status.
func (c *PostgresCluster) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
}

// GetStatus is a pointer to the status.
func (c *PostgresCluster) GetStatus() any { return &c.Status }

// Identity is the UID under which the volumes and the repository know the cluster. It is that of the PostgresCluster which created
// the database, if this one took it over.
func (c *PostgresCluster) Identity() types.UID {
	if c.Status.Identity != "" {
		return c.Status.Identity
	}
	return c.UID
}

// GetConditions are the conditions of the status.
func (r *BackupRepository) GetConditions() []metav1.Condition { return r.Status.Conditions }

// SetConditions replaces the conditions of the status.
func (r *BackupRepository) SetConditions(conditions []metav1.Condition) {
	r.Status.Conditions = conditions
}

// GetStatus is a pointer to the status.
func (r *BackupRepository) GetStatus() any { return &r.Status }

// GetConditions are the conditions of the status.
func (b *Backup) GetConditions() []metav1.Condition { return b.Status.Conditions }

// SetConditions replaces the conditions of the status.
func (b *Backup) SetConditions(conditions []metav1.Condition) { b.Status.Conditions = conditions }

// GetStatus is a pointer to the status.
func (b *Backup) GetStatus() any { return &b.Status }

// GetConditions are the conditions of the status.
func (s *BackupSchedule) GetConditions() []metav1.Condition { return s.Status.Conditions }

// SetConditions replaces the conditions of the status.
func (s *BackupSchedule) SetConditions(conditions []metav1.Condition) {
	s.Status.Conditions = conditions
}

// GetStatus is a pointer to the status.
func (s *BackupSchedule) GetStatus() any { return &s.Status }

// GetConditions are the conditions of the status.
func (r *Restore) GetConditions() []metav1.Condition { return r.Status.Conditions }

// SetConditions replaces the conditions of the status.
func (r *Restore) SetConditions(conditions []metav1.Condition) { r.Status.Conditions = conditions }

// GetStatus is a pointer to the status.
func (r *Restore) GetStatus() any { return &r.Status }

// GetConditions are the conditions of the status.
func (u *Upgrade) GetConditions() []metav1.Condition { return u.Status.Conditions }

// SetConditions replaces the conditions of the status.
func (u *Upgrade) SetConditions(conditions []metav1.Condition) { u.Status.Conditions = conditions }

// GetStatus is a pointer to the status.
func (u *Upgrade) GetStatus() any { return &u.Status }

// GetConditions are the conditions of the status.
func (p *Pooler) GetConditions() []metav1.Condition { return p.Status.Conditions }

// SetConditions replaces the conditions of the status.
func (p *Pooler) SetConditions(conditions []metav1.Condition) { p.Status.Conditions = conditions }

// GetStatus is a pointer to the status.
func (p *Pooler) GetStatus() any { return &p.Status }

// GetConditions are the conditions of the status.
func (d *FailoverDrill) GetConditions() []metav1.Condition { return d.Status.Conditions }

// SetConditions replaces the conditions of the status.
func (d *FailoverDrill) SetConditions(conditions []metav1.Condition) {
	d.Status.Conditions = conditions
}

// GetStatus is a pointer to the status.
func (d *FailoverDrill) GetStatus() any { return &d.Status }

// GetConditions are the conditions of the status.
func (s *FailoverDrillSchedule) GetConditions() []metav1.Condition { return s.Status.Conditions }

// SetConditions replaces the conditions of the status.
func (s *FailoverDrillSchedule) SetConditions(conditions []metav1.Condition) {
	s.Status.Conditions = conditions
}

// GetStatus is a pointer to the status.
func (s *FailoverDrillSchedule) GetStatus() any { return &s.Status }
