// Command chart is what `helm template` does with a chart, by Helm's own library: a test can see what an operator will get.
//
// In: the directory of a chart, and values as JSON or YAML on standard input. Out: the rendered documents with a line before each that
// names its file, in the order in which Helm would install them. Values that the schema of the chart refuses are an error, in Helm's words.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
)

func main() {
	name := flag.String("name", "switchyard", "name of the release")
	namespace := flag.String("namespace", "kube-system", "namespace of the release")
	version := flag.String("kube-version", "v1.36.0", "version of Kubernetes that the chart is told")
	flag.Parse()
	release := chartutil.ReleaseOptions{Name: *name, Namespace: *namespace, Revision: 1, IsInstall: true}
	if err := render(flag.Arg(0), release, *version); err != nil {
		log.Fatalf("chart: %v", err)
	}
}

func render(directory string, release chartutil.ReleaseOptions, version string) error {
	chart, err := loader.LoadDir(directory)
	if err != nil {
		return fmt.Errorf("loading %q: %w", directory, err)
	}
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		return fmt.Errorf("reading values: %w", err)
	}
	values, err := chartutil.ReadValues(input)
	if err != nil {
		return fmt.Errorf("values: %w", err)
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	parsed, err := chartutil.ParseKubeVersion(version)
	if err != nil {
		return fmt.Errorf("--kube-version: %w", err)
	}
	capabilities.KubeVersion = *parsed
	// Only whole Helm looks at this field of a chart; its engine does not.
	if wanted := chart.Metadata.KubeVersion; wanted != "" && !chartutil.IsCompatibleRange(wanted, parsed.String()) {
		return fmt.Errorf("the chart is for Kubernetes %s, not for %s", wanted, parsed)
	}
	all, err := chartutil.ToRenderValues(chart, values, release, capabilities)
	if err != nil {
		return err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return err
	}
	return show(files, capabilities)
}

// show prints manifests, and on standard error the notes, which are none.
func show(files map[string]string, capabilities *chartutil.Capabilities) error {
	notes := ""
	for path, text := range files {
		if strings.HasSuffix(path, "/NOTES.txt") {
			notes = text
			delete(files, path)
		}
	}
	_, manifests, err := releaseutil.SortManifests(files, capabilities.APIVersions, releaseutil.InstallOrder)
	if err != nil {
		return err
	}
	for _, manifest := range manifests {
		fmt.Printf("---\n# Source: %s\n%s\n", manifest.Name, manifest.Content)
	}
	_, err = io.WriteString(os.Stderr, notes)
	return err
}
