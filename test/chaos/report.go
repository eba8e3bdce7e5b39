package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"howdah.dev/apis/v1alpha1"
)

// Report is what came of all rounds.
type Report []Result

// Save writes it for programs.
func (r Report) Save(file string) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, append(content, '\n'), 0o644)
}

// Print writes it for people: the median of each figure, with the least and the most.
func (r Report) Print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "fault\treplication\trounds\tgap\tgap, new connections\tlost rows\tdouble acks\tfailovers\twhole again")
	for _, group := range r.groups() {
		of := slices.DeleteFunc(slices.Clone(group), func(r Result) bool { return r.Unfinished })
		rounds := fmt.Sprint(len(group))
		if len(of) < len(group) {
			rounds = fmt.Sprintf("%d, %d of them UNFINISHED", len(group), len(group)-len(of))
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", group[0].Fault, group[0].kind(), rounds,
			seconds(of, func(r Result) float64 { return r.GapSeconds }),
			seconds(of, func(r Result) float64 { return r.NewConnectionGap }),
			count(of, func(r Result) int { return r.LostRows }),
			count(of, func(r Result) int { return r.DoublePrimaryAcks }),
			count(of, func(r Result) int { return r.Failovers }),
			seconds(of, func(r Result) float64 { return r.WholeAgainSeconds }))
	}
	return table.Flush()
}

// Markdown is the table of the page of figures: a line for each fault and kind of replication.
func (r Report) Markdown() string {
	var out strings.Builder
	fmt.Fprintln(&out, "| fault | replication | rounds | rows lost | double acknowledgements | longest gap | new connections | healthy again after |")
	fmt.Fprintln(&out, "| --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, group := range r.groups() {
		of := slices.DeleteFunc(slices.Clone(group), func(r Result) bool { return r.Unfinished })
		rounds := fmt.Sprint(len(group))
		if unfinished := len(group) - len(of); unfinished > 0 {
			rounds += fmt.Sprintf(", %d without an end", unfinished)
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %d | %d | %s | %s | %s |\n", group[0].Fault, group[0].kind(), rounds,
			total(of, func(r Result) int { return r.LostRows }), total(of, func(r Result) int { return r.DoublePrimaryAcks }),
			seconds(of, func(r Result) float64 { return r.GapSeconds }), seconds(of, func(r Result) float64 { return r.NewConnectionGap }),
			seconds(of, func(r Result) float64 { return r.WholeAgainSeconds }))
	}
	return out.String()
}

// kind of cluster, as tables name it.
func (r *Result) kind() string {
	if r.Renewal == v1alpha1.RenewalMembers {
		return string(r.Replication) + ", lease by members"
	}
	return string(r.Replication)
}

func total(of []Result, figure func(Result) int) (sum int) {
	for _, result := range of {
		sum += figure(result)
	}
	return sum
}

// groups are the rounds of the same fault and replication, in the order of the first of each.
func (r Report) groups() [][]Result {
	var groups [][]Result
	for _, result := range r {
		same := func(group []Result) bool {
			return group[0].Fault == result.Fault && group[0].kind() == result.kind()
		}
		if i := slices.IndexFunc(groups, same); i >= 0 {
			groups[i] = append(groups[i], result)
			continue
		}
		groups = append(groups, []Result{result})
	}
	return groups
}

func seconds(of []Result, figure func(Result) float64) string {
	values := sorted(of, figure)
	n := len(values)
	if n == 0 {
		return "-"
	}
	median := (values[(n-1)/2] + values[n/2]) / 2
	return fmt.Sprintf("%.1f s (%.1f-%.1f)", median, values[0], values[n-1])
}

// count tells of rows and failovers, where every one matters: from the least to the most.
func count(of []Result, figure func(Result) int) string {
	values := sorted(of, figure)
	if len(values) == 0 {
		return "-"
	}
	least, most := values[0], values[len(values)-1]
	if least == most {
		return fmt.Sprint(most)
	}
	return fmt.Sprintf("%d-%d", least, most)
}

func sorted[T int | float64](of []Result, figure func(Result) T) []T {
	var values []T
	for _, result := range of {
		values = append(values, figure(result))
	}
	slices.Sort(values)
	return values
}
