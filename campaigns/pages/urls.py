"""Where each page is."""

from __future__ import annotations

from django.contrib.auth.views import LogoutView
from django.urls import path

from campaigns.pages import campaigns, home, launch, live, mixes, runs, targets
from campaigns.pages.login import Login

urlpatterns = [
    path("", home.home, name="home"),
    path("login/", Login.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("targets/", targets.target_list, name="target-list"),
    path("targets/new/", targets.target_new, name="target-new"),
    path("targets/<int:pk>/", targets.target_detail, name="target-detail"),
    path("targets/<int:pk>/edit/", targets.target_edit, name="target-edit"),
    path("targets/<int:pk>/preflight/", targets.target_preflight, name="target-preflight"),
    path("targets/<int:pk>/archive/", targets.target_archive, name="target-archive"),
    path("targets/<int:pk>/unarchive/", targets.target_unarchive, name="target-unarchive"),
    path("mixes/", mixes.mix_list, name="mix-list"),
    path("mixes/new/", mixes.mix_new, name="mix-new"),
    path("mixes/preview/", mixes.mix_preview, name="mix-preview"),
    path("mixes/<int:pk>/edit/", mixes.mix_edit, name="mix-edit"),
    path("mixes/<int:pk>/archive/", mixes.mix_archive, name="mix-archive"),
    path("mixes/<int:pk>/unarchive/", mixes.mix_unarchive, name="mix-unarchive"),
    path("campaigns/", campaigns.campaign_list, name="campaign-list"),
    path("campaigns/new/", launch.campaign_new, name="campaign-new"),
    path("campaigns/new/estimate/", launch.launch_estimate, name="launch-estimate"),
    path("campaigns/new/preflight/", launch.launch_preflight, name="launch-preflight"),
    path("campaigns/<int:pk>/", campaigns.campaign_detail, name="campaign-detail"),
    path("campaigns/<int:pk>/launch/", launch.run_launch, name="run-launch"),
    path("runs/<int:pk>/", runs.run_detail, name="run-detail"),
    path("runs/<int:pk>/live/", live.run_live, name="run-live"),
    path("runs/<int:pk>/cancel/", runs.run_cancel, name="run-cancel"),
    path("runs/<int:pk>/resume/", runs.run_resume, name="run-resume"),
]
