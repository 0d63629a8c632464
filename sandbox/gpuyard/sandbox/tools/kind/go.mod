module gpuyard.io/sandbox/tools/kind

go 1.26.0

tool (
	sigs.k8s.io/kind
)

require (
	sigs.k8s.io/kind v0.33.0
)
