module gpuyard.io/sandbox/tools/containerd

go 1.26.0

tool (
	github.com/containerd/containerd/v2/cmd/containerd
	github.com/containerd/containerd/v2/cmd/ctr
	github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2
)

require (
	github.com/containerd/containerd/v2 v2.2.1
)
