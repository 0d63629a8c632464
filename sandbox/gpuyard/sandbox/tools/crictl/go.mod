module gpuyard.io/sandbox/tools/crictl

go 1.26.2

tool (
	sigs.k8s.io/cri-tools/cmd/crictl
)

require (
	sigs.k8s.io/cri-tools v1.36.0
)
