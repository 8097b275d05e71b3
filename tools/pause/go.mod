// The container that holds a Pod together, and the image of it.
module run-operator.dev/tools/pause

go 1.26.0
