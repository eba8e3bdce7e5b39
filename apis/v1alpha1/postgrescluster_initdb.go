package v1alpha1

// LocaleProvider is what defines the sort order of text.
// +kubebuilder:validation:Enum=Builtin;ICU;Libc
type LocaleProvider string

const (
	// LocaleBuiltin is PostgreSQL itself, from version 17 on.
	LocaleBuiltin LocaleProvider = "Builtin"
	// LocaleICU is the ICU library.
	LocaleICU LocaleProvider = "ICU"
	// LocaleLibc is the C library of the image.
	LocaleLibc LocaleProvider = "Libc"
)

// BootstrapInitdb describes the first database. Pages always have checksums.
// +kubebuilder:validation:XValidation:rule="!has(self.icuRules) || (has(self.localeProvider) && self.localeProvider == 'ICU')",message="spec.bootstrap.initdb.icuRules needs localeProvider: ICU, because no other provider has such rules: set it, or remove icuRules"
// +kubebuilder:validation:XValidation:rule="!has(self.localeProvider) || self.localeProvider != 'ICU' || has(self.locale)",message="spec.bootstrap.initdb.localeProvider: ICU needs a locale; for example: locale: de-AT"
// +kubebuilder:validation:XValidation:rule="!has(self.locale) || has(self.localeProvider)",message="spec.bootstrap.initdb.locale needs a localeProvider, because the name means something else to each: set localeProvider to Builtin, ICU or Libc"
// +kubebuilder:validation:XValidation:rule="!has(self.localeProvider) || self.localeProvider != 'Builtin' || !has(self.locale) || self.locale in ['C','C.UTF-8','PG_UNICODE_FAST']",message="spec.bootstrap.initdb.locale must be C, C.UTF-8 or PG_UNICODE_FAST with localeProvider: Builtin; for the order of a language use localeProvider: ICU"
// +kubebuilder:validation:XValidation:rule="!has(self.encoding) || self.encoding == 'UTF8' || (has(self.localeProvider) && self.localeProvider == 'Libc' && has(self.locale))",message="spec.bootstrap.initdb.encoding other than UTF8 needs localeProvider: Libc and a locale of that encoding; for example: encoding: LATIN1, localeProvider: Libc, locale: C"
type BootstrapInitdb struct {
	// Database is the name of the application's database.
	// +optional
	// +kubebuilder:default=app
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_]{0,62}$`
	// +kubebuilder:validation:XValidation:rule="!(self in ['postgres','template0','template1'])",message="spec.bootstrap.initdb.database is a name that PostgreSQL uses itself; choose another one, such as app"
	Database string `json:"database,omitempty"`
	// Owner is the name of the application's role, which owns the database.
	// +optional
	// +kubebuilder:default=app
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_]{0,62}$`
	// +kubebuilder:validation:XValidation:rule="self != 'postgres' && !self.startsWith('pg_') && !self.startsWith('howdah_')",message="spec.bootstrap.initdb.owner is a name that PostgreSQL or Howdah uses itself; choose another one, such as app"
	Owner string `json:"owner,omitempty"`

	// Encoding of the databases. By default, UTF8. It can't be changed later, nor can the locale and the segment size; upgrades,
	// restores and clones keep them.
	// +optional
	// +kubebuilder:validation:Enum=UTF8;LATIN1;LATIN2;LATIN3;LATIN4;LATIN5;LATIN6;LATIN7;LATIN8;LATIN9;LATIN10;ISO_8859_5;ISO_8859_6;ISO_8859_7;ISO_8859_8;KOI8R;KOI8U;WIN866;WIN874;WIN1250;WIN1251;WIN1252;WIN1253;WIN1254;WIN1255;WIN1256;WIN1257;WIN1258;EUC_CN;EUC_JP;EUC_JIS_2004;EUC_KR;EUC_TW
	Encoding string `json:"encoding,omitempty"`
	// LocaleProvider defines the sort order of text: PostgreSQL itself (Builtin, from version 17 on), the ICU library (from 15 on),
	// or the C library of the image (Libc). By default, Builtin where the version has it, else Libc. A new version of ICU or of the C
	// library can change the order, after which indexes have to be rebuilt; the order by code points of C and C.UTF-8 stays.
	// +optional
	LocaleProvider LocaleProvider `json:"localeProvider,omitempty"`
	// Locale is the name of a locale of that provider: C, C.UTF-8 or PG_UNICODE_FAST (from 18 on) with Builtin; a language tag with ICU,
	// such as de-AT or und-u-ks-level2; a locale that the image has with Libc, such as de_DE.UTF-8. By default, C.UTF-8.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z][-A-Za-z0-9_.@=]*$')",message="spec.bootstrap.initdb.locale must be the name of a locale, such as C.UTF-8, de_DE.UTF-8 or de-AT"
	Locale string `json:"locale,omitempty"`
	// ICURules change the order of the ICU locale (from version 16 on), such as: &V << w <<< W.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	ICURules string `json:"icuRules,omitempty"`
	// WALSegmentSize is the size of a file of WAL. By default, 16Mi. Larger ones suit servers that write hundreds of MB a second.
	// +optional
	// +kubebuilder:validation:Enum="1Mi";"2Mi";"4Mi";"8Mi";"16Mi";"32Mi";"64Mi";"128Mi";"256Mi";"512Mi";"1Gi"
	WALSegmentSize string `json:"walSegmentSize,omitempty"`
	// PostInitSQL is SQL in ConfigMaps of the same namespace, such as a schema. It runs once, in the application's database and as the
	// application's role, before anybody else can connect. If it fails there is no database: correct it, and delete the init Job.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	PostInitSQL []ConfigMapKey `json:"postInitSQL,omitempty"`
}

// ConfigMapKey is a key of a ConfigMap.
type ConfigMapKey struct {
	// Name of the ConfigMap.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Key in it, such as schema.sql.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-_a-zA-Z0-9][-._a-zA-Z0-9]*$`
	Key string `json:"key"`
}
