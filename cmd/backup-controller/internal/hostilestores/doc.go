// Package hostilestores tries the controllers of repositories and of Backups on stores that mean harm.
package hostilestores
