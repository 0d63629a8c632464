// Command scheduling-e2e runs the scheduling tests of the end-to-end suite of Kubernetes against a cluster.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/version"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"

	_ "k8s.io/kubernetes/test/e2e/framework/debug/init"
	_ "k8s.io/kubernetes/test/e2e/framework/node/init"
	_ "k8s.io/kubernetes/test/e2e/scheduling"
)

// outcome takes the place of testing.T, which only `go test` provides.
type outcome struct{ failed bool }

func (o *outcome) Fail() { o.failed = true }

// A test, or another attempt at it, must not find its room taken by pods that the one before has left terminating.
var _ = ginkgo.BeforeEach(func(ctx context.Context) {
	client, err := framework.LoadClientset()
	framework.ExpectNoError(err)
	earlier := func(ctx context.Context) ([]v1.Namespace, error) {
		found, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: "e2e-framework"})
		if err != nil {
			return nil, err
		}
		return found.Items, nil
	}
	gomega.Eventually(ctx, earlier).WithTimeout(5 * time.Minute).WithPolling(time.Second).Should(gomega.BeEmpty())
})

func main() {
	showVersion := flag.Bool("version", false, "print the version of Kubernetes that the tests belong to")
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	if *showVersion {
		fmt.Println(version.Get().GitVersion)
		return
	}
	framework.AfterReadingAllFlags(&framework.TestContext)
	gomega.RegisterFailHandler(framework.Fail)
	suite, reporter := framework.CreateGinkgoConfig()
	result := &outcome{}
	ginkgo.RunSpecs(result, "sig-scheduling", suite, reporter)
	if result.failed {
		os.Exit(1)
	}
}
