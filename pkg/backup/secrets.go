package backup

// Secret is one of Kubernetes that has logins of the cluster, so that a cluster that is made again has the same passwords.
type Secret struct {
	// Purpose: SecretApplication, SecretSuperuser or SecretRole.
	Purpose string     `json:"purpose"`
	Name    string     `json:"name"`
	Data    SecretData `json:"data,omitempty"`
}

// What a Secret is for.
const (
	SecretApplication = "Application" // the application's role: username and password
	SecretSuperuser   = "Superuser"   // postgres: username and password
	SecretRole        = "Role"        // declared roles, under the keys that the cluster's spec names
)

// SecretData are the entries of a Secret. They print as redacted.
type SecretData map[string][]byte

// String hides the entries.
func (SecretData) String() string { return "[redacted]" }

// GoString hides the entries.
func (SecretData) GoString() string { return "[redacted]" }

// WithoutData names Secrets, to be shown.
func WithoutData(secrets []Secret) []Secret {
	var named []Secret
	for _, secret := range secrets {
		named = append(named, Secret{Purpose: secret.Purpose, Name: secret.Name})
	}
	return named
}
