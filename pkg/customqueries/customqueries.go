// Package customqueries reads a person's own queries for metrics, in the format of postgres_exporter and CloudNativePG. What it returns
// has names that Prometheus accepts and that no other metric of an instance has; what it leaves out, it names in a sentence.
package customqueries

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Limits of what is accepted.
const (
	MaxBytes   = 256 << 10 // of all files of a cluster
	MaxQueries = 50
	maxColumns = 20
	maxTargets = 20
	maxName    = 100
)

// Query as an agent runs it.
type Query struct {
	Name string `json:"name"`
	SQL  string `json:"sql"`
	// Predicate is a query that has to return true, or this one is not run.
	Predicate string `json:"predicate,omitempty"`
	// Databases in which it runs, which may be patterns; none: the application's.
	Databases []string `json:"databases,omitempty"`
	// Primary: it runs on the primary only.
	Primary bool `json:"primary,omitempty"`
	// EverySeconds is how often it runs, if that is more seldom than usual.
	EverySeconds int64 `json:"everySeconds,omitempty"`
	// Versions of PostgreSQL on which it runs; none: all.
	Versions Versions `json:"versions,omitempty"`
	Columns  []Column `json:"columns"`
}

// Kind says what a column is.
type Kind string

// What a column may be.
const (
	Label   Kind = "Label"
	Counter Kind = "Counter"
	Gauge   Kind = "Gauge"
)

// Column of a query's result. Others are not looked at.
type Column struct {
	Column string `json:"column"`
	// Name of the label, or of the metric.
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	Help string `json:"help,omitempty"`
}

// entry is a query in the format of postgres_exporter, with what CloudNativePG adds.
type entry struct {
	Query           string              `yaml:"query"`
	PredicateQuery  string              `yaml:"predicate_query"`
	Name            string              `yaml:"name"`
	Primary         bool                `yaml:"primary"`
	Master          bool                `yaml:"master"`
	CacheSeconds    int64               `yaml:"cache_seconds"`
	RunOnServer     string              `yaml:"runonserver"`
	TargetDatabases []string            `yaml:"target_databases"`
	Metrics         []map[string]column `yaml:"metrics"`
}

type column struct {
	Usage       string `yaml:"usage"`
	Description string `yaml:"description"`
	Name        string `yaml:"name"`
}

// Collection takes queries from several files.
type Collection struct {
	Queries []Query
	// Problems are sentences about what was left out.
	Problems []string

	bytes   int
	names   map[string]bool
	metrics map[string]string // which query has it
}

// Add reads the queries of a file, which source names to a person. One that is wrong takes no other along.
func (c *Collection) Add(source, content string) {
	if c.names == nil {
		c.names, c.metrics = map[string]bool{}, map[string]string{}
	}
	if c.bytes += len(content); c.bytes > MaxBytes {
		c.Refuse(source, "the queries of the cluster are larger than 256 KiB: leave some out")
		return
	}
	file := map[string]yaml.Node{}
	if err := yaml.Unmarshal([]byte(content), &file); err != nil {
		c.Refuse(source, "it has to be queries in the format of postgres_exporter: "+oneLine(err))
		return
	}
	for _, key := range slices.Sorted(maps.Keys(file)) {
		query, err := c.read(key, file[key])
		if err != nil {
			c.Refuse(source, fmt.Sprintf("query %s: %v", clip(key), err))
			continue
		}
		c.names[query.Name] = true
		for _, column := range query.Columns {
			if column.Kind != Label {
				c.metrics[column.Name] = query.Name
			}
		}
		c.Queries = append(c.Queries, query)
	}
}

// Refuse adds a sentence about a source that can't be read.
func (c *Collection) Refuse(source, why string) {
	c.Problems = append(c.Problems, source+": "+why)
}

var identifier = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// decode reads an entry, and refuses fields that it doesn't know.
func decode(node yaml.Node) (e entry, err error) {
	content, err := yaml.Marshal(&node)
	if err != nil {
		return e, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	return e, decoder.Decode(&e)
}

func (c *Collection) read(key string, node yaml.Node) (Query, error) {
	e, err := decode(node)
	if err != nil {
		return Query{}, errors.New(oneLine(err))
	}
	query := Query{
		Name: cmp.Or(e.Name, key), SQL: plain(e.Query), Predicate: plain(e.PredicateQuery), Databases: e.TargetDatabases,
		Primary: e.Primary || e.Master, EverySeconds: e.CacheSeconds,
	}
	switch {
	case len(c.Queries) >= MaxQueries:
		return query, fmt.Errorf("a cluster may have %d queries: leave some out", MaxQueries)
	case len(query.Name) > maxName || !identifier.MatchString(query.Name):
		return query, fmt.Errorf("its name must have up to %d letters, digits and '_', such as shop_orders", maxName)
	case c.names[query.Name]:
		return query, fmt.Errorf("another query has the name %s: set another name", query.Name)
	case query.SQL == "":
		return query, fmt.Errorf("it has no SQL: write it into query")
	case e.CacheSeconds < 0 || e.CacheSeconds > 86400:
		return query, fmt.Errorf("cache_seconds must be from 0 to 86400")
	}
	if err := checkTargets(e.TargetDatabases); err != nil {
		return query, err
	}
	if query.Versions, err = parseVersions(e.RunOnServer); err != nil {
		return query, err
	}
	query.Columns, err = c.columns(query.Name, e.Metrics)
	return query, err
}

func checkTargets(databases []string) error {
	if len(databases) > maxTargets {
		return fmt.Errorf("target_databases may have %d entries", maxTargets)
	}
	for _, pattern := range databases {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return fmt.Errorf("%q of target_databases is neither a database nor a pattern, such as shop or \"*\"", clip(pattern))
		}
	}
	return nil
}

func (c *Collection) columns(query string, metrics []map[string]column) ([]Column, error) {
	var columns []Column
	values, names := 0, map[string]bool{}
	for _, each := range metrics {
		for _, key := range slices.Sorted(maps.Keys(each)) {
			read, err := c.column(query, key, each[key])
			switch {
			case err != nil:
				return nil, fmt.Errorf("column %s: %w", clip(key), err)
			case read.Kind == "":
				continue
			case names[read.Name]:
				return nil, fmt.Errorf("column %s: another column has the name %s", clip(key), read.Name)
			}
			names[read.Name] = true
			if read.Kind != Label {
				values++
			}
			columns = append(columns, read)
		}
	}
	switch {
	case values == 0:
		return nil, fmt.Errorf("none of its metrics is a GAUGE or a COUNTER, so it yields nothing")
	case len(columns) > maxColumns:
		return nil, fmt.Errorf("it has more than %d labels and metrics", maxColumns)
	}
	return columns, nil
}

// column without a kind is left out.
func (c *Collection) column(query, key string, of column) (Column, error) {
	read := Column{Column: key, Name: cmp.Or(of.Name, key), Help: of.Description}
	switch usage := strings.ToUpper(of.Usage); usage {
	case "DISCARD":
		return Column{}, nil
	case "LABEL":
		read.Kind = Label
	case "COUNTER":
		read.Kind, read.Name = Counter, query+"_"+read.Name
	case "GAUGE":
		read.Kind, read.Name = Gauge, query+"_"+read.Name
	default:
		return read, fmt.Errorf("usage %q is not supported: write LABEL, GAUGE, COUNTER or DISCARD", clip(of.Usage))
	}
	switch other := c.metrics[read.Name]; {
	case len(read.Name) > 2*maxName || !identifier.MatchString(read.Name):
		return read, fmt.Errorf("its name must have letters, digits and '_' only, such as open_orders")
	case read.Kind == Label && strings.HasPrefix(read.Name, "__"):
		return read, fmt.Errorf("labels that begin with __ are Prometheus' own: set another name")
	case read.Kind == Label:
	case Taken(read.Name):
		return read, fmt.Errorf("instances already serve a metric %s: write usage: DISCARD, or set another name", read.Name)
	case other != "":
		return read, fmt.Errorf("query %s already has the metric %s: set another name", other, read.Name)
	}
	return read, nil
}

// plain is SQL without the semicolon at its end.
func plain(sql string) string { return strings.TrimRight(strings.TrimSpace(sql), "; \t\r\n") }

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// clip keeps what a person wrote to a length that fits into a sentence.
func clip(text string) string {
	if len(text) > 60 {
		return strings.ToValidUTF8(text[:60], "") + "…"
	}
	return text
}
