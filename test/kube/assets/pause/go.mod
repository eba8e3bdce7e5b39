module howdah.dev/test/kube/assets/pause

go 1.26.0
