// Command generate writes what `make generate` makes out of the CRDs and the chart: the kustomize folders, which are
// the chart's own output, a page for each kind, and the READMEs of the charts.
//
// Run it in the root of the repository, after controller-gen:
//
//	helm template howdah charts/howdah --namespace howdah-system --set crds.install=false | go run ./tools/generate
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(chart io.Reader) error {
	crds, err := readCRDs("config/crd")
	if err != nil {
		return err
	}
	if err := writeKustomize(chart, crds); err != nil {
		return fmt.Errorf("kustomize: %w", err)
	}
	for _, crd := range crds {
		if err := writePage(crd); err != nil {
			return fmt.Errorf("page of %s: %w", crd.Spec.Names.Kind, err)
		}
	}
	for _, folder := range []string{"charts/howdah", "charts/howdah-cluster"} {
		if err := writeChartPage(folder); err != nil {
			return fmt.Errorf("page of %s: %w", folder, err)
		}
	}
	return nil
}

func write(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o644)
}
