//! The filter language of kymo [spec/filter.md].
